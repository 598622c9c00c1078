# SPDX-License-Identifier: Apache-2.0
"""The ops of a saver with tables: all ranks stream their contents to one checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import tensorflow as tf

from sok_compat.checkpoint.streams.files_of_rank_0 import are_on_rank_0
from sok_compat.checkpoint.streams.self_reading import SelfReadingSaveable
from sok_compat.ranks.collectives import begin_collective
from sok_compat.ranks.identity import Ranks, is_connected
from sok_compat.runtime.graphs import outside
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.settings import CHECKPOINTS_ON_RANK_0, SAVE_MEMORY, STALL_TIMEOUT
from sok_compat.runtime.tf_versions import BaseSaverBuilder
from sok_compat.tables.slots.slot_variable import SlotVariable
from sok_compat.tables.table import Table


class StreamedTable(SelfReadingSaveable):
    """A table in a saver. Ops move its contents between table and files, without a tensor.

    table: the Table.
    slots: its SlotVariables that the files have.
    """

    def __init__(self, table: Table, name: str, slots: Iterable[SlotVariable] = ()) -> None:
        """Creates no ops; `name` is the table's in the checkpoint."""
        self.table, self.slots = table, list(slots)
        spec = BaseSaverBuilder.SaveSpec(_no_tensor, "", name, tf.float32, table.device)
        super().__init__(table.handle, [spec], name)

    @property
    def tables(self) -> list[Table]:
        """The Tables that it saves."""
        return [self.table]

    def description(self) -> str:
        """One line that must be the same on all ranks."""
        raise NotImplementedError

    def specs_of_rank(self) -> list[BaseSaverBuilder.SaveSpec]:
        """The ordinary tensors, or slices of them, that this rank saves."""
        return []

    def make_missing(self) -> list[tf.Operation]:
        """Ops that initialize the tables and slots that a restore fills, unless they are."""
        if tf.executing_eagerly():
            return []
        return [each.initialize_if_missing() for each in self._planes()]

    def _planes(self):
        """The tables and slots that a restore fills."""
        return [self.table, *self.slots]

    def save(self, checkpoint: tf.Tensor, collectives: list[tf.Tensor]) -> tf.Operation:
        """Returns the op that adds this rank's contents of the table to an open checkpoint
        transaction."""
        raise NotImplementedError


def save_checkpoint(
    path: tf.Tensor,
    tables: Sequence[StreamedTable],
    specs: Sequence[BaseSaverBuilder.SaveSpec],
    base: tf.Tensor | None = None,
) -> tf.Tensor:
    """Returns the id of a checkpoint of tables, at least one, and tensors, which is written first.

    All ranks that share the tables run it with the same path; if only rank 0 has the files, its
    path counts. Rank 0 writes all other tensors. The checkpoint appears, or replaces an earlier
    one, atomically after all ranks have written their parts. A failure on one rank is one on all,
    and keeps the earlier checkpoint.

    Args:
      base: the checkpoint that this is an increment of, a scalar string tensor as of
        series.Saved.as_base; '' for a whole checkpoint that increments may follow; None for one
        without increments, whose id is ''.
    """
    ranks = max((each.table.ranks for each in tables), key=lambda ranks: ranks.size)
    # Begins all collectives first, so that other ranks do not wait for a rank that fails.
    lines = [each.description() for each in tables]
    on_rank_0 = are_on_rank_0() and ranks.size > 1
    checked = [f"{CHECKPOINTS_ON_RANK_0.name}={on_rank_0:d}", *lines]
    to_hold = collectives_of(ranks, "save", "\n".join(checked))
    to_begin = collectives_of(ranks, "begin")
    to_save = [
        collectives_of(ranks, f"save_{each.name}", line) for each, line in zip(tables, lines)
    ]
    to_commit = collectives_of(ranks, "commit")
    with tf.device("/cpu:0"):
        own_specs = [*specs] if ranks.rank == 0 else []
        steps = checkpoint_barrier(to_hold)
        with tf.control_dependencies(before_save(tables, steps)):
            own_specs += [spec for each in tables for spec in each.specs_of_rank()]
            values = [(spec, _read_now(spec.tensor)) for spec in own_specs]
            saved = [(spec, value) for spec, value in values if value is not None]
            checkpoint = ops.sok_begin_checkpoint(
                path,
                [value for _, value in saved],
                to_begin,
                [] if base is None else [base],
                steps,
                names=[spec.name for spec, _ in saved],
                slices=[spec.slice_spec or "" for spec, _ in saved],
                num_ranks=ranks.size,
                on_rank_0=on_rank_0,
                most_bytes=SAVE_MEMORY.value() << 20,
            )
    last = checkpoint.op
    for each, collectives in zip(tables, to_save):
        with tf.control_dependencies([last]), tf.device(each.table.device):
            last = each.save(checkpoint, collectives)
    with tf.control_dependencies([last]), tf.device("/cpu:0"):
        return ops.sok_commit_checkpoint(checkpoint, to_commit)


def checkpoint_barrier(collectives: list[tf.Tensor]) -> tf.Tensor:
    """A tensor that holds training steps on all ranks as long as it exists."""
    with tf.device("/cpu:0"):
        return ops.sok_hold_checkpoint_barrier(collectives, most_seconds=STALL_TIMEOUT.value())


def collectives_of(ranks: Ranks, what: str, description: str = "") -> list[tf.Tensor]:
    """The collectives of a saver's op: one, or [] for a single rank.

    Args:
      what: the op's purpose, the same on all ranks.
      description: lines that must be the same on all ranks.
    """
    if ranks.size == 1 or not is_connected():
        return []
    with tf.name_scope(""):  # savers without tables may differ between ranks
        return [begin_collective(f"tf.train.Saver ({what})", description, "tf.train.Saver.meet")]


def before_save(tables: Sequence[StreamedTable], steps: tf.Tensor) -> list[tf.Operation]:
    """The ops to run, after the barrier `steps`, before tables are read."""
    with tf.control_dependencies([steps]):
        found = [each.table.before_save() for each in tables]
    return [steps.op, *(op for op in found if op is not None)]


def _read_now(tensor):
    """A saver's tensor; that of a variable is read again by an op that waits for the barrier.

    The first read, of a saver in a graph, waits for nothing. Returns None for None.
    """
    read = None if tensor is None else outside(tensor)[-1]
    if not tf.is_symbolic_tensor(read) or read.op.type != "ReadVariableOp":
        return tensor
    (handle,) = read.op.inputs
    with tf.device(handle.device):
        value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=read.dtype)
    with tf.device("/cpu:0"):
        return tf.identity(value)


def _no_tensor():
    return tf.zeros([0])  # only read by a saver with reshape=True, which tables ignore
