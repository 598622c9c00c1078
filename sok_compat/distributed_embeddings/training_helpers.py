# SPDX-License-Identifier: Apache-2.0
"""Horovod's helpers, for models of which each rank has some tables.

What Horovod does with gradients and broadcasts of tables is the library's, for any face
(runtime/horovod_helpers.py): gradients are sums over ranks, divided by their number where Horovod
averages; broadcasts leave tables and their slots alone. Here are the names, and the settings that
distributed-embeddings gives.
"""

import functools
import importlib

from sok_compat.runtime.horovod_ranks import start_horovod
from sok_compat.runtime.tf_versions import keras
from sok_compat.tables import connected_ranks


def broadcast_variables(model_vars, root_rank=0):
    """Gives all ranks the values of one rank, of variables that all of them have.

    API of distributed-embeddings.

    Args:
      model_vars: variables; tables and their slots among them stay as they are.
      root_rank: whose values.
    """
    horovod = _horovod("broadcast_variables")
    if horovod is not None:
        shared = [variable for variable in model_vars if not hasattr(variable, "de_local")]
        horovod.broadcast_variables(shared, root_rank=root_rank)


def DistributedGradientTape(*args, **kwargs):  # noqa: N802  as there
    """hvd.DistributedGradientTape: gradients of the mean over ranks of their losses, of tables too.

    API of distributed-embeddings. It may be made before or after the forward pass.

    Args:
      *args: of hvd.DistributedGradientTape: a tape first.
      **kwargs: likewise, without `sparse_as_dense`, which is True.
    """
    horovod = _horovod("DistributedGradientTape")
    if horovod is None:
        return args[0] if args else kwargs["gradtape"]
    tape = horovod.DistributedGradientTape(*args, sparse_as_dense=True, **kwargs)
    # Ranks have other variables, and so other names.
    tape.gradient = functools.partial(tape.gradient, use_generic_names=True)
    return tape


def DistributedOptimizer(*args, **kwargs):  # noqa: N802  as there
    """Horovod's DistributedOptimizer for Keras, with gradients as DistributedGradientTape gives.

    API of distributed-embeddings.

    Args:
      *args: of horovod.tensorflow.keras.DistributedOptimizer: an optimizer first.
      **kwargs: likewise, without `sparse_as_dense`, which is True.
    """
    if _horovod("DistributedOptimizer") is None:
        return args[0] if args else kwargs["optimizer"]
    horovod = importlib.import_module("horovod.tensorflow.keras")
    return horovod.DistributedOptimizer(*args, sparse_as_dense=True, **kwargs)


def BroadcastGlobalVariablesCallback(root_rank, device="", local_variables=None):  # noqa: N802
    """Horovod's callback of that name, which leaves tables and their slots alone.

    API of distributed-embeddings.

    Args:
      root_rank: whose values all ranks get when the first batch ends.
      device: where they are sent from.
      local_variables: that stay as they are, beside tables.
    """
    if _horovod("BroadcastGlobalVariablesCallback") is None:
        return keras.callbacks.Callback()
    # Horovod's class of that name is a callback of tf.keras, which may be Keras 3.
    implementation = importlib.import_module("horovod._keras.callbacks")
    bases = implementation.BroadcastGlobalVariablesCallbackImpl, keras.callbacks.Callback
    callback = type("BroadcastGlobalVariablesCallback", bases, {})(keras.backend, root_rank, device)
    for variable in local_variables or ():
        callback.register_local_var(variable)
    return callback


def _horovod(user):
    """horovod.tensorflow, which knows of tables; None without it."""
    horovod = start_horovod(user)
    if horovod is not None:
        connected_ranks(user)
    return horovod
