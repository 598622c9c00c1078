# SPDX-License-Identifier: Apache-2.0
"""`Init`: the first call of every script."""

import tensorflow as tf

from sok_compat.checkpoint.frozen_graphs import refuse_to_freeze_tables
from sok_compat.checkpoint.init_from_checkpoint import initialize_tables_from_checkpoints
from sok_compat.checkpoint.tf_saver import save_tables_in_checkpoints
from sok_compat.runtime.agreement import agree
from sok_compat.runtime.ranks import random_seed
from sok_compat.runtime.strategies import raise_under_several_replicas
from sok_compat.runtime.wire_dtype import set_wire_dtype, wire_dtype
from sok_compat.sparse_operation_kit.core.initialization import Initialization, set_initialization
from sok_compat.tables.table import connected_ranks
from sok_compat.training.keras_optimizers import update_rows_in_use_in_keras
from sok_compat.training.moving_averages import refuse_moving_averages_of_tables


def Init(**kwargs):
    """Prepares tables for the default graph or, in eager mode, the process; checks the settings.

    API of SparseOperationKit 1.x. May be called again, for any number of graphs and sessions.

    Args:
      global_batch_size: samples in a step over all ranks, an int >= 1 that the number of ranks
        divides. Batches may be smaller (the last one often is).
      seed: int64; the same seed gives the same first values of rows. Absent or 0: a random one; on
        several ranks the same in all graphs.
      wire_dtype: 'float32', 'bfloat16' or 'float16', as what rows and gradients travel between
        ranks (docs/distributed.md), the same on all; sums are of float32. Absent or None: the
        environment's SOK_WIRE_DTYPE, or 'float32'. For lookups that are made from now on, in this
        graph or in eager mode. In one process nothing travels, and nothing is rounded.
      **kwargs: others are ignored, as in SparseOperationKit.

    Returns:
      A scalar string tensor, `b'OK'`. SparseOperationKit wants it run first in the session; here
      that need not be. On several ranks all run it or none, and it fails where they differ in
      settings or tables. In eager mode it has run.

    Raises:
      KeyError: global_batch_size is missing.
      TypeError, ValueError: a setting is no int or out of range.
      RuntimeError: under a tf.distribute strategy of several replicas, or one of several ranks
        without hvd.init(); or another rank has ended, or does not come here within
        SOK_STALL_TIMEOUT_SECONDS.
    """
    raise_under_several_replicas("sok.Init")
    if "global_batch_size" not in kwargs:
        raise KeyError("sok.Init needs global_batch_size, the samples in a step over all ranks")
    ranks = connected_ranks("sok.Init")
    global_batch_size = _checked_int("global_batch_size", kwargs["global_batch_size"])
    if global_batch_size < 1 or global_batch_size % ranks.size:
        raise ValueError(
            f"global_batch_size must be a multiple of the number of ranks, {ranks.size}, and at "
            f"least 1, got {global_batch_size}"
        )
    seed = _checked_int("seed", kwargs.get("seed") or 0)
    if not -(2**63) <= seed < 2**63:
        raise ValueError(f"seed must fit in 64 bits, got {seed}")
    set_wire_dtype(kwargs.get("wire_dtype"))
    wire = wire_dtype()
    with tf.init_scope():  # out of functions and branches, as tables are
        tables, seed_in_use = [], seed or random_seed()
        settings = [
            f"seed={seed or 'not given'}",
            f"global_batch_size={global_batch_size}",
            f"wire_dtype={wire}",
        ]
        status = _agreement(ranks, settings, tables)
        set_initialization(Initialization(global_batch_size, seed_in_use, ranks, status, tables))
    save_tables_in_checkpoints()
    initialize_tables_from_checkpoints()
    refuse_to_freeze_tables()
    refuse_moving_averages_of_tables()
    update_rows_in_use_in_keras()
    return status


def _agreement(ranks, settings, tables):
    """A tensor that fails when run if the ranks differ in settings or tables."""
    if ranks.size == 1:
        return tf.constant(b"OK", name="SokInit")

    def signature():  # when run: all layers have been made by then
        return "\n".join([*settings, *tables]).encode()

    return agree(tf.numpy_function(signature, [], tf.string))


def _checked_int(name, value):
    try:
        return value.__index__()  # ints and NumPy ints, not floats
    except AttributeError:
        raise TypeError(f"{name} must be an int, got {value!r}") from None
