# SPDX-License-Identifier: Apache-2.0
"""`sok.tf.keras.mixed_precision.LossScaleOptimizer`: loss scaling around any optimizer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Callable, Union

import tensorflow as tf

from sok_compat.ranks.current_job import sum_over_ranks
from sok_compat.runtime.tf_versions import silence_deprecation

scales = tf.compat.v1.mixed_precision
Gradient = Union[tf.Tensor, tf.IndexedSlices, None]


class LossScaleOptimizer:
    """Scales the loss up and the gradients down again. API of SparseOperationKit 1.x (TF1).

    This keeps small float16 gradients from becoming 0. With a dynamic scale, a step with gradients
    that are not finite changes only the scale, on all ranks alike.

    ```
    optimizer = sok.tf.keras.mixed_precision.LossScaleOptimizer(sok.optimizers.Adam(), 1024)
    gradients = tf.gradients(optimizer.get_scaled_loss(loss), tables)
    train = optimizer.apply_gradients(zip(optimizer.get_unscaled_gradients(gradients), tables))
    ```

    All other attributes are those of the wrapped optimizer (`initializer`, `iterations`, ...).
    """

    def __init__(
        self, opt: Any, loss_scale: float | str | tf.compat.v1.mixed_precision.LossScale
    ) -> None:
        """Wraps an optimizer.

        Args:
          opt: an optimizer of sok_compat, tf.compat.v1.train or keras.optimizers.legacy.
          loss_scale: a number >= 1; 'dynamic', which starts at 2**15, halves after a step that is
            not finite and doubles after 2000 finite ones; or a
            tf.compat.v1.mixed_precision.LossScale.

        Raises:
          TypeError: opt is not an optimizer.
          ValueError: loss_scale is none of these.
        """
        if not callable(getattr(opt, "apply_gradients", None)):
            raise TypeError(f"opt must be an optimizer, got {opt!r}")
        self._optimizer = opt
        with silence_deprecation():  # TensorFlow points to a class that cannot wrap TF1 optimizers
            self._loss_scale = _parse_loss_scale(loss_scale)

    @property
    def loss_scale(self) -> tf.compat.v1.mixed_precision.LossScale:
        """The LossScale; calling it returns the scale, a float32 scalar tensor."""
        return self._loss_scale

    def get_scaled_loss(
        self, loss: tf.Tensor | Callable[[], tf.Tensor]
    ) -> tf.Tensor | Callable[[], tf.Tensor]:
        """Returns the loss times the scale, in the dtype of the loss; a callable for a callable."""
        if callable(loss):
            return lambda: self.get_scaled_loss(loss())
        return loss * tf.cast(self._loss_scale(), loss.dtype)

    def get_unscaled_gradients(self, grads: Iterable[Gradient]) -> list[Gradient]:
        """Returns the gradients divided by the scale; None stays None, slices stay slices."""
        inverse = 1.0 / self._loss_scale()
        return [None if grad is None else _scaled(grad, inverse) for grad in grads]

    def get_gradients(self, loss: tf.Tensor, params: Sequence[tf.Variable]) -> list[Gradient]:
        """Returns the gradients of the unscaled `loss`, computed with the scaled loss."""
        return [grad for grad, _ in self.compute_gradients(loss, params)]

    def compute_gradients(
        self,
        loss: tf.Tensor | Callable[[], tf.Tensor],
        var_list: Sequence[tf.Variable],
        **kwargs: Any,
    ) -> list[tuple[Gradient, tf.Variable]]:
        """Returns (gradient, variable) pairs; kwargs are for the wrapped optimizer."""
        scaled = self.get_scaled_loss(loss)
        if hasattr(self._optimizer, "compute_gradients"):  # TF1's, and Horovod's wrapper
            pairs = self._optimizer.compute_gradients(scaled, var_list, **kwargs)
            grads, variables = [g for g, _ in pairs], [v for _, v in pairs]
        else:
            variables = list(var_list)
            grads = self._optimizer.get_gradients(scaled, variables, **kwargs)
        return list(zip(self.get_unscaled_gradients(grads), variables))

    def minimize(
        self,
        loss: tf.Tensor | Callable[[], tf.Tensor],
        var_list: Sequence[tf.Variable],
        **kwargs: Any,
    ) -> tf.Operation:
        """Returns the op of a whole step; kwargs are for `apply_gradients`."""
        return self.apply_gradients(self.compute_gradients(loss, var_list), **kwargs)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Gradient, tf.Variable]],
        *args: Any,
        **kwargs: Any,
    ) -> tf.Operation:
        """Applies unscaled gradients.

        Args:
          grads_and_vars: (gradient, variable) pairs.
          *args: for the wrapped optimizer, such as global_step.
          **kwargs: for the wrapped optimizer.

        Returns:
          The op. With a dynamic scale it also updates the scale. If a gradient is not finite on any
          rank, it does nothing else: global_step and iterations stay, too.
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
    def learning_rate(self) -> Any:
        """The learning rate of the wrapped optimizer; may be set."""
        return self._optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        self._optimizer.learning_rate = value

    lr = learning_rate

    def __getattr__(self, name: str) -> Any:
        if name == "_optimizer":  # read before __init__, for instance by copy
            raise AttributeError(name)
        return getattr(self._optimizer, name)


def _parse_loss_scale(loss_scale: Any) -> tf.compat.v1.mixed_precision.LossScale:
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


def _scaled(grad: Any, factor: tf.Tensor) -> tf.Tensor | tf.IndexedSlices:
    factor = tf.cast(factor, grad.dtype)
    if isinstance(grad, tf.IndexedSlices):
        return tf.IndexedSlices(grad.values * factor, grad.indices, grad.dense_shape)
    return grad * factor


def _zero_if_all_finite(grads: list[Any]) -> tf.Tensor:
    """A scalar float32 tensor: 0, or infinity if any gradient of any rank is not finite."""
    values = [grad.values if isinstance(grad, tf.IndexedSlices) else grad for grad in grads]
    is_finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(value)) for value in values])
    return sum_over_ranks(tf.where(is_finite, 0.0, float("inf")))
