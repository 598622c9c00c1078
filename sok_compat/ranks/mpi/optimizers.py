# SPDX-License-Identifier: Apache-2.0
"""Optimizers and a callback over the ranks of MPI, in the place of Horovod's."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import tensorflow as tf

from sok_compat.ranks.job import Job
from sok_compat.runtime.tf_versions import Optimizer, keras


def optimizer_of_ranks(job: Job, optimizer: Any, op: str) -> Any:
    """An optimizer with the same options, whose minimize reduces gradients over ranks.

    apply_gradients does not, as with Horovod.

    Raises:
      NotImplementedError: it is none of tf.compat.v1.train, or of Keras 2, legacy or not.
    """
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        return _OptimizerOfRanks(job, optimizer, op)
    kind = type(optimizer)
    names = ("_compute_gradients", "compute_gradients")  # of legacy ones and of newer ones
    name = next((name for name in names if hasattr(kind, name)), None)
    if name is None or not hasattr(kind, "from_config"):
        raise NotImplementedError(
            f"DistributedOptimizer of {kind.__name__} needs Horovod: use an optimizer of "
            "tf.compat.v1.train or of Keras 2, or install Horovod with MPI"
        )

    @tf.autograph.experimental.do_not_convert
    def compute_gradients(self, *args, **kwargs):
        return _reduced(job, getattr(kind, name)(self, *args, **kwargs), op)

    reducing: Any = type(kind.__name__, (kind,), {name: compute_gradients})
    return reducing.from_config(optimizer.get_config())


@tf.autograph.experimental.do_not_convert
def _reduced(
    job: Job, grads_and_vars: Iterable[tuple[Any, tf.Variable]], op: str
) -> list[tuple[Any, tf.Variable]]:
    return [
        (gradient if gradient is None else job.allreduce(gradient, op=op), variable)
        for gradient, variable in grads_and_vars
    ]


class _OptimizerOfRanks(Optimizer):
    """A tf.compat.v1.train.Optimizer that computes gradients of all ranks."""

    def __init__(self, job: Job, optimizer: Optimizer, op: str) -> None:
        super().__init__(use_locking=False, name=f"Distributed{type(optimizer).__name__}")
        self._job = job
        self._optimizer = optimizer
        self._op = op

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, tf.Variable]]:
        pairs = self._optimizer.compute_gradients(*args, **kwargs)
        return _reduced(self._job, pairs, self._op)

    def apply_gradients(self, *args: Any, **kwargs: Any) -> tf.Operation:
        return self._optimizer.apply_gradients(*args, **kwargs)

    def get_slot(self, *args: Any, **kwargs: Any) -> tf.Variable:
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self) -> list[str]:
        return self._optimizer.get_slot_names()

    def variables(self) -> list[tf.Variable]:
        return self._optimizer.variables()


class BroadcastCallback(keras.callbacks.Callback):
    """Gives all ranks one rank's variables when the first batch ends, but for tables and slots."""

    def __init__(self, job: Job, root_rank: int, local_variables: Collection[tf.Variable]) -> None:
        """
        Args:
          local_variables: those of the model that stay as they are.
        """
        super().__init__()
        self._job = job
        self._root_rank = root_rank
        self._local = {variable.ref() for variable in local_variables}
        self._is_done = False

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._is_done:
            return
        self._is_done = True
        if tf.executing_eagerly():
            found = self.model.optimizer.variables
            slots = found() if callable(found) else found
            shared = [each for each in self.model.variables if each.ref() not in self._local]
            self._job.broadcast_variables([*shared, *slots], self._root_rank)
        else:
            broadcast = self._job.broadcast_global_variables(self._root_rank)
            keras.backend.get_session().run(broadcast)
