# SPDX-License-Identifier: Apache-2.0
"""`sok.tf.keras.mixed_precision.LossScaleOptimizer`: loss scaling around any optimizer."""

import tensorflow as tf

from sok_compat.runtime.horovod_ranks import sum_over_ranks
from sok_compat.runtime.tf_versions import silence_deprecation

scales = tf.compat.v1.mixed_precision


class LossScaleOptimizer:
    """Scales the loss up and the gradients down again. API of SparseOperationKit 1.x (TF1).

    Small float16 gradients then do not become 0. With a dynamic scale, a step whose gradients are
    not finite changes nothing but the scale, on all ranks alike.

    ```
    optimizer = sok.tf.keras.mixed_precision.LossScaleOptimizer(sok.optimizers.Adam(), 1024)
    gradients = tf.gradients(optimizer.get_scaled_loss(loss), tables)
    train = optimizer.apply_gradients(zip(optimizer.get_unscaled_gradients(gradients), tables))
    ```

    All other attributes are those of the wrapped optimizer (`initializer`, `iterations`, ...).
    """

    def __init__(self, opt, loss_scale):
        """Wraps an optimizer.

        Args:
          opt: one of sok_compat, of tf.compat.v1.train, or of keras.optimizers.legacy.
          loss_scale: a number >= 1; 'dynamic': from 2**15, halved after a step that is not finite
            and doubled after 2000 that are; or a tf.compat.v1.mixed_precision.LossScale.

        Raises:
          TypeError: opt is no optimizer.
          ValueError: another loss_scale.
        """
        if not callable(getattr(opt, "apply_gradients", None)):
            raise TypeError(f"opt must be an optimizer, got {opt!r}")
        self._optimizer = opt
        with silence_deprecation():  # TensorFlow points to a class that cannot wrap TF1 optimizers
            self._loss_scale = _parse_loss_scale(loss_scale)

    @property
    def loss_scale(self):
        """The LossScale; calling it gives the scale, a float32 scalar tensor."""
        return self._loss_scale

    def get_scaled_loss(self, loss):
        """The loss times the scale, in the dtype of the loss; of a callable, a callable."""
        if callable(loss):
            return lambda: self.get_scaled_loss(loss())
        return loss * tf.cast(self._loss_scale(), loss.dtype)

    def get_unscaled_gradients(self, grads):
        """The gradients divided by the scale, in a list; None stays None, slices stay slices."""
        inverse = 1.0 / self._loss_scale()
        return [None if grad is None else _scaled(grad, inverse) for grad in grads]

    def get_gradients(self, loss, params):
        """The gradients of `loss` (not scaled) by `params`, computed with the scaled loss."""
        return [grad for grad, _ in self.compute_gradients(loss, params)]

    def compute_gradients(self, loss, var_list, **kwargs):
        """(gradient, variable) pairs; kwargs as the wrapped optimizer takes them."""
        scaled = self.get_scaled_loss(loss)
        if hasattr(self._optimizer, "compute_gradients"):  # TF1's, and Horovod's wrapper
            pairs = self._optimizer.compute_gradients(scaled, var_list, **kwargs)
            grads, variables = [g for g, _ in pairs], [v for _, v in pairs]
        else:
            variables = list(var_list)
            grads = self._optimizer.get_gradients(scaled, variables, **kwargs)
        return list(zip(self.get_unscaled_gradients(grads), variables))

    def minimize(self, loss, var_list, **kwargs):
        """The op of a whole step; kwargs are for `apply_gradients`."""
        return self.apply_gradients(self.compute_gradients(loss, var_list), **kwargs)

    def apply_gradients(self, grads_and_vars, *args, **kwargs):
        """Applies unscaled gradients.

        Args:
          grads_and_vars: (gradient, variable) pairs.
          *args: as the wrapped optimizer takes them, such as global_step.
          **kwargs: as well.

        Returns:
          The op. With a dynamic scale it also updates the scale, and where a gradient is not
          finite, on any rank, it does nothing else: global_step and iterations stay, too.
        """
        pairs = [(grad, variable) for grad, variable in grads_and_vars]
        grads = [grad for grad, _ in pairs if grad is not None]
        if isinstance(self._loss_scale, scales.FixedLossScale) or not grads:
            return self._optimizer.apply_gradients(pairs, *args, **kwargs)
        update_scale, is_finite = self._loss_scale.update([_zero_if_all_finite(grads)])

        def apply():
            with tf.control_dependencies([self._optimizer.apply_gradients(pairs, *args, **kwargs)]):
                return tf.constant(True)

        has_applied = tf.cond(is_finite, apply, lambda: tf.constant(False))
        return tf.group(has_applied, update_scale)

    @property
    def learning_rate(self):
        """That of the wrapped optimizer; may be set."""
        return self._optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, value):
        self._optimizer.learning_rate = value

    lr = learning_rate

    def __getattr__(self, name):
        if name == "_optimizer":  # asked for before __init__, as by copy
            raise AttributeError(name)
        return getattr(self._optimizer, name)


def _parse_loss_scale(loss_scale):
    if isinstance(loss_scale, scales.LossScale):
        return loss_scale
    if isinstance(loss_scale, str) and loss_scale == "dynamic":
        return scales.DynamicLossScale()
    try:
        number = float(loss_scale)
    except (TypeError, ValueError):
        number = 0.0
    if not 1.0 <= number < float("inf"):
        raise ValueError(f"loss_scale must be a number >= 1 or 'dynamic', got {loss_scale!r}")
    return scales.FixedLossScale(number)


def _scaled(grad, factor):
    factor = tf.cast(factor, grad.dtype)
    if isinstance(grad, tf.IndexedSlices):
        return tf.IndexedSlices(grad.values * factor, grad.indices, grad.dense_shape)
    return grad * factor


def _zero_if_all_finite(grads):
    """A scalar float32 tensor: 0, or infinity where any gradient of any rank is not finite."""
    values = [grad.values if isinstance(grad, tf.IndexedSlices) else grad for grad in grads]
    is_finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(value)) for value in values])
    return sum_over_ranks(tf.where(is_finite, 0.0, float("inf")))
