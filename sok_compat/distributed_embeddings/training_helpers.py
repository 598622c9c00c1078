# SPDX-License-Identifier: Apache-2.0
"""Horovod's helpers under the names, and with the settings, of distributed-embeddings.

Their handling of tables is that of ranks/horovod/helpers.py, for any API: gradients are sums over
ranks, divided by the number of ranks if Horovod averages; broadcasts skip tables and their slots.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from sok_compat.ranks.horovod.communicator import horovod_module
from sok_compat.ranks.job import start_job
from sok_compat.ranks.mpi.job import MpiJob
from sok_compat.ranks.mpi.keras_helpers import BroadcastCallback, optimizer_of_ranks
from sok_compat.ranks.mpi.options import check_options
from sok_compat.ranks.mpi.tape import TapeOfRanks
from sok_compat.runtime import integrations
from sok_compat.runtime.tf_versions import keras
from sok_compat.tables import connected_ranks


@tf.autograph.experimental.do_not_convert
def broadcast_variables(model_vars: Iterable[tf.Variable], root_rank: int = 0) -> None:
    """Gives all ranks one rank's values of the variables that all of them have.

    API of distributed-embeddings.

    Args:
      model_vars: variables; tables and their slots among them stay as they are.
      root_rank: the rank that has the values.
    """
    horovod = _horovod("broadcast_variables")
    if horovod is not None:
        shared = [variable for variable in model_vars if not hasattr(variable, "de_local")]
        horovod.broadcast_variables(shared, root_rank=root_rank)


@tf.autograph.experimental.do_not_convert
def DistributedGradientTape(*args: Any, **kwargs: Any) -> Any:  # noqa: N802  as there
    """Returns hvd.DistributedGradientTape: gradients of the mean loss over ranks, also of tables.

    API of distributed-embeddings. It may be made before or after the forward pass.

    Args:
      *args: those of hvd.DistributedGradientTape, a tape first.
      **kwargs: likewise, except `sparse_as_dense`, which is True.
    """
    horovod = _horovod("DistributedGradientTape")
    if horovod is None:
        return args[0] if args else kwargs["gradtape"]
    if isinstance(horovod, MpiJob):
        return _of_mpi("DistributedGradientTape", TapeOfRanks, horovod, *args, **kwargs)
    tape = horovod.DistributedGradientTape(*args, sparse_as_dense=True, **kwargs)
    # Variables, and hence their names, differ between ranks.
    tape.gradient = functools.partial(tape.gradient, use_generic_names=True)
    return tape


@tf.autograph.experimental.do_not_convert
def DistributedOptimizer(*args: Any, **kwargs: Any) -> Any:  # noqa: N802  as there
    """Returns Horovod's DistributedOptimizer for Keras, with DistributedGradientTape's gradients.

    API of distributed-embeddings.

    Args:
      *args: those of horovod.tensorflow.keras.DistributedOptimizer, an optimizer first.
      **kwargs: likewise, except `sparse_as_dense`, which is True.
    """
    horovod = _horovod("DistributedOptimizer")
    if horovod is None:
        return args[0] if args else kwargs["optimizer"]
    if isinstance(horovod, MpiJob):
        return _of_mpi("DistributedOptimizer", optimizer_of_ranks, horovod, *args, **kwargs)
    horovod = horovod_module("tensorflow.keras")
    return horovod.DistributedOptimizer(*args, sparse_as_dense=True, **kwargs)


@tf.autograph.experimental.do_not_convert
def BroadcastGlobalVariablesCallback(  # noqa: N802
    root_rank: int, device: str = "", local_variables: Iterable[tf.Variable] | None = None
) -> keras.callbacks.Callback:
    """Returns Horovod's callback of that name, which skips tables and their slots.

    API of distributed-embeddings.

    Args:
      root_rank: the rank whose values all ranks get when the first batch ends.
      device: the device that sends them.
      local_variables: variables to skip, besides tables.
    """
    horovod = _horovod("BroadcastGlobalVariablesCallback")
    if horovod is None:
        return keras.callbacks.Callback()
    if isinstance(horovod, MpiJob):
        return BroadcastCallback(horovod, root_rank, list(local_variables or ()))
    # Horovod's class of that name is a callback of tf.keras, which may be Keras 3.
    implementation = horovod_module("_keras.callbacks")
    bases = implementation.BroadcastGlobalVariablesCallbackImpl, keras.callbacks.Callback
    callback = type("BroadcastGlobalVariablesCallback", bases, {})(keras.backend, root_rank, device)
    for variable in local_variables or ():
        callback.register_local_var(variable)
    return callback


def _of_mpi(user, wrapper, job, wrapped, *, op=MpiJob.Average, **options):
    check_options(user, options)
    return wrapper(job, wrapped, op)


def _horovod(user: str) -> Any:
    """horovod.tensorflow, adapted to tables, or an MpiJob; None for one process."""
    horovod = start_job(user)
    if horovod is not None:
        connected_ranks(user)
        integrations.expect_tables()
    return horovod
