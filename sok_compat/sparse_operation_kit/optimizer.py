# SPDX-License-Identifier: Apache-2.0
"""`OptimizerWrapper` and `SGD` of SparseOperationKit 2."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from sok_compat.runtime.tf_versions import members
from sok_compat.tables.rows.row_generations import rows_of_gradient
from sok_compat.tables.rows.shown_rows import showing_all_rows
from sok_compat.tables.table import Table
from sok_compat.training.rows_of_gradients import (
    apply_to_rows_of_gradients,
    is_legacy_keras,
    is_newer_keras,
)

_GradsAndVars = Iterable[tuple[Any, tf.Variable]]


class OptimizerWrapper(tf.__internal__.tracking.AutoTrackable):
    """An optimizer that moves only the rows that a step's lookups have read.

    API of SparseOperationKit 2. Adam becomes lazy Adam: rows without a gradient, and their slots,
    stay as they are. Slots are planes of the variables, and are saved with them. Ordinary variables
    are updated as without the wrapper. It counts the steps of an optimizer of Keras itself: scripts
    also call the optimizer, in the same step, for their ordinary variables.

    Attributes:
      optimizer: the optimizer that it was given.
      iterations: the number of the wrapper's steps, for an optimizer of Keras; else None.
    """

    def __init__(self, optimizer: Any) -> None:
        """Wraps an optimizer.

        Args:
          optimizer: of tf.train, tf.keras.optimizers.legacy, tf.keras.optimizers (which does not
            work in graphs) or tf_keras.

        Raises:
          TypeError: it is none of these; of Keras 3.
        """
        self.optimizer = checked(optimizer)
        self.iterations = None
        if members.counts_steps(optimizer):
            self.iterations = tf.Variable(0, trainable=False, name="iter", dtype=tf.int64)

    def apply_gradients(
        self, grads_and_vars: _GradsAndVars, global_step: Any = None, name: str | None = None
    ) -> Any:
        """Applies gradients to variables.

        Args:
          grads_and_vars: pairs of a gradient and a variable, of sok or ordinary. Pairs whose
            gradient is None are left out.
          global_step: of tf.train's optimizers: a variable to increment.
          name: of the op.

        Returns:
          What the optimizer returns; None if no gradient is left.

        Raises:
          ValueError: global_step is given to an optimizer of Keras.
          NotImplementedError: an optimizer of tf.keras.optimizers in a graph, or with use_ema.
        """
        pairs = [(gradient, each) for gradient, each in grads_and_vars if gradient is not None]
        if not pairs:
            return None
        options = {} if name is None else {"name": name}
        if global_step is not None:
            if not isinstance(self.optimizer, tf.compat.v1.train.Optimizer):
                raise ValueError("global_step is for optimizers of tf.compat.v1.train")
            options["global_step"] = global_step
        in_graph = not tf.compat.v1.executing_eagerly_outside_functions()
        if in_graph and is_newer_keras(self.optimizer):
            raise NotImplementedError(
                "optimizers of tf.keras.optimizers do not work in graph mode: use the one of the "
                "same name in tf.keras.optimizers.legacy"
            )
        if getattr(self.optimizer, "use_ema", False):
            raise NotImplementedError(
                "sok.OptimizerWrapper moves the rows of a step, but use_ema averages all rows: "
                f"make the {type(self.optimizer).__name__} without it"
            )
        with contextlib.ExitStack() as stack:
            if self.iterations is not None:
                stack.enter_context(members.counting_in(self.optimizer, self.iterations))
            return apply_to_rows_of_gradients(self.optimizer, pairs, **options)

    def __getattr__(self, name: str) -> Any:
        """get_slot, get_slot_names and compute_gradients are the optimizer's, if it has them."""
        # No methods: tf.train.Checkpoint takes objects with get_slot_names for optimizers.
        if name in ("get_slot", "get_slot_names", "compute_gradients"):
            return getattr(self.optimizer, name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    @property
    def lr(self) -> Any:
        """The optimizer's learning rate, of Keras."""
        return self.optimizer.learning_rate

    @lr.setter
    def lr(self, value: Any) -> None:
        self.optimizer.learning_rate = value

    learning_rate = lr


def checked(optimizer: Any) -> Any:
    """Returns an optimizer that OptimizerWrapper takes; else raises TypeError."""
    is_of_train = isinstance(optimizer, tf.compat.v1.train.Optimizer)
    if not (is_of_train or is_legacy_keras(optimizer) or is_newer_keras(optimizer)):
        kind = type(optimizer)
        raise TypeError(
            "sok.OptimizerWrapper needs an optimizer of tf.compat.v1.train or Keras 2 "
            "(tf_keras from TensorFlow 2.16 on), got "
            f"{kind.__module__}.{kind.__name__}"
        )
    return optimizer


class SGD:
    """Gradient descent. API of SparseOperationKit 2.

    Attributes:
      lr: the learning rate, a tf.Variable.
    """

    def __init__(self, lr: float) -> None:
        """Makes the optimizer; in a graph, its learning rate is initialized with the variables.

        Args:
          lr: the learning rate.
        """
        self.lr = tf.Variable(lr, trainable=False, dtype=tf.float32, name="sok_sgd_lr")

    def apply_gradients(
        self, grads_and_vars: _GradsAndVars, global_step: Any = None, name: str | None = None
    ) -> tf.Operation | None:
        """Subtracts lr * gradient from variables, of sok or ordinary.

        Args:
          grads_and_vars: pairs of a gradient and a variable; a gradient may be None.
          global_step: a variable to increment, or None.
          name: of the op.

        Returns:
          The op; None in eager mode.
        """
        done = [
            _descend(variable, gradient, self.lr)
            for gradient, variable in grads_and_vars
            if gradient is not None
        ]
        with tf.control_dependencies([] if tf.executing_eagerly() else done):
            if global_step is not None:
                done.append(global_step.assign_add(1))
        return None if tf.executing_eagerly() else tf.group(*done, name=name)


def _descend(variable: tf.Variable, gradient: Any, rate: tf.Variable) -> Any:
    gradient = rows_of_gradient(variable, gradient)
    if not isinstance(gradient, tf.IndexedSlices):
        return variable.assign_sub(tf.cast(rate, gradient.dtype) * gradient)
    delta = tf.cast(rate, gradient.dtype) * gradient.values
    slices = tf.IndexedSlices(delta, gradient.indices, gradient.dense_shape)
    is_table = isinstance(variable, Table)
    shown = showing_all_rows(variable) if is_table else contextlib.nullcontext()
    with shown:
        return variable.scatter_sub(slices)


__all__ = ["SGD", "OptimizerWrapper"]
