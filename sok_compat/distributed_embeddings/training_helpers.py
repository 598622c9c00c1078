# SPDX-License-Identifier: Apache-2.0
"""Horovod's helpers under the names, and with the settings, of distributed-embeddings.

Their handling of tables is that of ranks/horovod/helpers.py, for any API: gradients are sums over
ranks, divided by the number of ranks if Horovod averages; broadcasts skip tables and their slots.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from sok_compat.ranks.current_job import start_job
from sok_compat.ranks.job import Job
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
    shared = [variable for variable in model_vars if not hasattr(variable, "de_local")]
    _job("broadcast_variables").broadcast_variables(shared, root_rank=root_rank)


@tf.autograph.experimental.do_not_convert
def DistributedGradientTape(*args: Any, **kwargs: Any) -> Any:  # noqa: N802  as there
    """Returns hvd.DistributedGradientTape: gradients of the mean loss over ranks, also of tables.

    API of distributed-embeddings. It may be made before or after the forward pass.

    Args:
      *args: those of hvd.DistributedGradientTape, a tape first.
      **kwargs: likewise, except `sparse_as_dense`, which is True.
    """
    return _job("DistributedGradientTape").DistributedGradientTape(
        *args, sparse_as_dense=True, **kwargs
    )


@tf.autograph.experimental.do_not_convert
def DistributedOptimizer(*args: Any, **kwargs: Any) -> Any:  # noqa: N802  as there
    """Returns Horovod's DistributedOptimizer for Keras, with DistributedGradientTape's gradients.

    API of distributed-embeddings.

    Args:
      *args: those of horovod.tensorflow.keras.DistributedOptimizer, an optimizer first.
      **kwargs: likewise, except `sparse_as_dense`, which is True.
    """
    job = _job("DistributedOptimizer")
    return job.distributed_keras_optimizer(*args, sparse_as_dense=True, **kwargs)


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
    job = _job("BroadcastGlobalVariablesCallback")
    return job.broadcast_callback(root_rank, device, list(local_variables or ()))


def _job(user: str) -> Job:
    """The job, adapted to tables."""
    job = start_job(user)
    if job.is_initialized:
        connected_ranks(user)
        integrations.expect_tables()
    return job
