# SPDX-License-Identifier: Apache-2.0
"""The ranks of Horovod, which the script imported and initialized."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any

import tensorflow as tf

from sok_compat.ranks.horovod.communicator import Collectives, horovod_module
from sok_compat.ranks.horovod.helpers import adapt_helpers, leave_tables_out
from sok_compat.ranks.job import Job
from sok_compat.runtime import integrations
from sok_compat.runtime.tf_versions import keras


def _function_of_module(name: str) -> Any:
    """A method of Job that is the function of horovod.tensorflow of that name."""

    def function(self, *args, **options):
        return getattr(self.module, name)(*args, **options)

    function.__name__, function.__doc__ = name, getattr(Job, name).__doc__
    return function


class HorovodJob(Job):
    """The functions of horovod.tensorflow, as they are: see the base class.

    Attributes:
      module: horovod.tensorflow.
    """

    is_initialized = True

    def __init__(self, module: Any) -> None:
        self.module = module
        self.Average, self.Sum = module.Average, module.Sum
        self.Min, self.Max = module.Min, module.Max

    rank, size, local_rank = map(_function_of_module, ("rank", "size", "local_rank"))
    allreduce, allgather = map(_function_of_module, ("allreduce", "allgather"))
    alltoall, broadcast = map(_function_of_module, ("alltoall", "broadcast"))
    broadcast_variables = _function_of_module("broadcast_variables")
    broadcast_global_variables = _function_of_module("broadcast_global_variables")
    DistributedOptimizer = _function_of_module("DistributedOptimizer")

    def distributed_keras_optimizer(self, optimizer: Any, **options: Any) -> Any:
        return horovod_module("tensorflow.keras").DistributedOptimizer(optimizer, **options)

    def DistributedGradientTape(self, gradtape: Any, **options: Any) -> Any:  # noqa: N802
        """See the base class; names of gradients do not come from variables, which may differ
        between ranks."""
        tape = self.module.DistributedGradientTape(gradtape, **options)
        tape.gradient = functools.partial(tape.gradient, use_generic_names=True)
        return tape

    def broadcast_callback(
        self, root_rank: int, device: str, local_variables: Collection[tf.Variable]
    ) -> keras.callbacks.Callback:
        # Horovod's class of that name is a callback of tf.keras, which may be Keras 3.
        implementation = horovod_module("_keras.callbacks")
        bases = implementation.BroadcastGlobalVariablesCallbackImpl, keras.callbacks.Callback
        kind = type("BroadcastGlobalVariablesCallback", bases, {})
        callback = kind(keras.backend, root_rank, device)
        for variable in local_variables:
            callback.register_local_var(variable)
        return callback

    def adapt_to_tables(self, is_sharded: Callable[[Any], bool], is_connected: bool) -> None:
        adapt = adapt_helpers if is_connected else leave_tables_out
        integrations.when_there_are_tables(lambda: adapt(self.module, is_sharded))

    def uses_mpi(self) -> bool:
        return self.module.mpi_enabled()

    def connection(self) -> Collectives:
        return Collectives(self.module)
