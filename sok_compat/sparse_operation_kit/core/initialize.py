# SPDX-License-Identifier: Apache-2.0
"""`Init`: the first call of every script."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from sok_compat.ranks.identity import Ranks, random_seed
from sok_compat.ranks.same_on_all_ranks import check_same_on_all_ranks
from sok_compat.ranks.wire_dtype import set_wire_dtype
from sok_compat.ranks.wire_dtype import wire_dtype as current_wire_dtype
from sok_compat.runtime.known_words import raise_for_unknown_words
from sok_compat.runtime.strategies import raise_under_several_replicas
from sok_compat.sparse_operation_kit.core.initialization import (
    Initialization,
    set_initialization,
    tell_tensorflow_of_tables,
)
from sok_compat.tables.known_tables import connected_ranks
from sok_compat.tables.table_arguments import set_row_dtype

_DTYPES = ("wire_dtype", "row_dtype")


def Init(
    global_batch_size: int | None = None,
    seed: int | None = None,
    wire_dtype: str | None = None,
    row_dtype: tf.DType | str | None = None,
    **unknown: Any,
) -> tf.Tensor:
    """Prepares tables for the default graph or, in eager mode, the process; checks the settings.

    API of SparseOperationKit 1.x. May be called again, for any number of graphs and sessions; logs
    if batch size or seed change, as tables that were made before keep theirs.

    Args:
      global_batch_size: samples of all ranks in a step, an int >= 1 and a multiple of the number of
        ranks. Batches may be smaller, as the last one often is.
      seed: int64; the same seed gives the same first values of rows. Absent or 0: a random seed; on
        several ranks the same in all graphs.
      wire_dtype: 'float32', 'bfloat16' or 'float16', the dtype of rows and gradients on their way
        between ranks (docs/use/distributed.md), the same on all ranks; sums are in float32. Absent
        or None: the environment's SOK_WIRE_DTYPE, or 'float32'. Applies to lookups made from now
        on, in this graph or in eager mode. In one process nothing is rounded.
      row_dtype: float32, bfloat16 or float16, the dtype in memory of rows of tables that are made
        from now on without one: of the last two they take half as much, and updates round them at
        random, such that the mean is exact. Lookups, gradients and slots are float32. Absent or
        None: the environment's SOK_ROW_DTYPE, or float32.
      **unknown: raise; SparseOperationKit ignores them.

    Returns:
      A scalar string tensor, `b'OK'`. SparseOperationKit requires it to run first in the session;
      here it need not run. On several ranks all or none run it, and it fails if they differ in
      settings or tables. In eager mode it has already run.

    Raises:
      KeyError: global_batch_size is missing.
      TypeError, ValueError: an unknown setting, or one that is not an int or is out of range.
      RuntimeError: a tf.distribute strategy has several replicas; this is one of several ranks and
        hvd.init() has not been called; another rank has ended, or does not call Init within
        SOK_STALL_TIMEOUT_SECONDS.
    """
    raise_under_several_replicas("sok.Init")
    raise_for_unknown_words("sok.Init", unknown, ("global_batch_size", "seed", *_DTYPES))
    if global_batch_size is None:
        raise KeyError("sok.Init needs global_batch_size, the samples in a step over all ranks")
    ranks = connected_ranks("sok.Init")
    global_batch_size = _checked_batch_size(global_batch_size, ranks)
    seed = _checked_int("seed", seed or 0)
    if not -(2**63) <= seed < 2**63:
        raise ValueError(f"seed must fit in 64 bits, got {seed}")
    set_wire_dtype(wire_dtype)
    set_row_dtype(row_dtype)
    with tf.init_scope():  # out of functions and branches, as tables are
        tables: list[str] = []
        seed_in_use = seed or random_seed()
        settings = [f"seed={seed or 'not given'}", f"global_batch_size={global_batch_size}"]
        settings.append(f"wire_dtype={current_wire_dtype()}")
        status = _agreement(ranks, settings, tables)
        made = Initialization(global_batch_size, seed_in_use, seed or None, ranks, status, tables)
        set_initialization(made)
    tell_tensorflow_of_tables()
    return status


def _agreement(ranks: Ranks, settings: list[str], tables: list[str]) -> tf.Tensor:
    """A tensor that fails when run if the ranks differ in settings or tables."""
    if ranks.size == 1:
        return tf.constant(b"OK", name="SokInit")

    def signature():  # when run: all layers have been made by then
        return "\n".join([*settings, *tables]).encode()

    return check_same_on_all_ranks(tf.numpy_function(signature, [], tf.string))


def _checked_batch_size(global_batch_size: Any, ranks: Ranks) -> int:
    size = _checked_int("global_batch_size", global_batch_size)
    if size < 1 or size % ranks.size:
        raise ValueError(
            f"global_batch_size must be a multiple of the number of ranks, {ranks.size}, and at "
            f"least 1, got {size}"
        )
    return size


def _checked_int(name: str, value: Any) -> int:
    try:
        return value.__index__()  # ints and NumPy ints, not floats
    except AttributeError:
        raise TypeError(f"{name} must be an int, got {value!r}") from None
