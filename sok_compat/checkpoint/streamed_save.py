# SPDX-License-Identifier: Apache-2.0
"""The ops of a saver that has tables: all ranks write one checkpoint, as streams."""

import tensorflow as tf

from sok_compat.checkpoint.files_of_rank_0 import VARIABLE, are_on_rank_0
from sok_compat.checkpoint.self_reading import SelfReadingSaveable
from sok_compat.runtime.exchange import stall_seconds
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.ranks import is_connected
from sok_compat.runtime.tf_versions import BaseSaverBuilder
from sok_compat.runtime.tickets import begin_lookup


class StreamedTable(SelfReadingSaveable):
    """A table of a saver. No tensor holds its contents: ops move them between table and files.

    table: the Table.
    """

    def __init__(self, table, name):
        """`name`: of the table in the checkpoint."""
        self.table = table
        spec = BaseSaverBuilder.SaveSpec(_no_tensor, "", name, tf.float32, table.device)
        super().__init__(table.handle, [spec], name)

    @property
    def tables(self):
        """The Tables that are saved with it."""
        return [self.table]

    def description(self):
        """What all ranks must agree on, a line."""
        raise NotImplementedError

    def specs_of_rank(self):
        """[BaseSaverBuilder.SaveSpec] of what this rank has of it as ordinary tensors, or slices of
        them."""
        return []

    def save(self, checkpoint, tickets):
        """The op that adds what this rank has of the table.

        Args:
          checkpoint: the one that is being made, a scalar variant tensor.
          tickets: what the op meets those of other ranks with, in a list.
        """
        raise NotImplementedError


def save_checkpoint(path, tables, specs, base=None):
    """The op that makes a checkpoint of tables and tensors.

    All ranks that share the tables run it, with the same path; where rank 0 has the files, its own
    counts. What is no table is rank 0's. The checkpoint is there, or is replaced, in one instant,
    when all ranks have written their parts; what fails on one rank fails on all, and leaves what
    was there.

    Args:
      path: of the checkpoint, a scalar string tensor.
      tables: StreamedTables, at least one.
      specs: BaseSaverBuilder.SaveSpecs of what is no table.
      base: what it is an increment of, a scalar string tensor, as of increments.text_of; '': it is
        whole, and increments of it may come. None: none will.
    """
    ranks = max((each.table.ranks for each in tables), key=lambda ranks: ranks.size)
    # All of them first: a rank that fails has begun what others would wait for.
    lines = [each.description() for each in tables]
    on_rank_0 = are_on_rank_0() and ranks.size > 1
    agreed = [f"{VARIABLE}={on_rank_0:d}", *lines]
    to_hold = meeting_tickets(ranks, "save", "\n".join(agreed))
    to_begin = meeting_tickets(ranks, "begin")
    to_save = [
        meeting_tickets(ranks, f"save_{each.name}", line) for each, line in zip(tables, lines)
    ]
    to_commit = meeting_tickets(ranks, "commit")
    with tf.device("/cpu:0"):
        specs = [*specs] if ranks.rank == 0 else []
        steps = ops.sok_hold_steps(
            to_hold, num_ranks=ranks.size, rank=ranks.rank, most_seconds=stall_seconds()
        )
        with tf.control_dependencies(_before_save(tables, steps)):
            specs += [spec for each in tables for spec in each.specs_of_rank()]
            values = [(spec, _read_now(spec.tensor)) for spec in specs]
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
                rank=ranks.rank,
                on_rank_0=on_rank_0,
            )
    last = checkpoint.op
    for each, tickets in zip(tables, to_save):
        with tf.control_dependencies([last]), tf.device(each.table.device):
            last = each.save(checkpoint, tickets)
    with tf.control_dependencies([last]), tf.device("/cpu:0"):
        return ops.sok_commit_checkpoint(checkpoint, to_commit)


def meeting_tickets(ranks, what, description=""):
    """What an op meets those of other ranks with, in a list; none: alone.

    Args:
      ranks: the Ranks that run it.
      what: it does, the same on all ranks.
      description: lines that must be the same on all ranks.
    """
    if ranks.size == 1 or not is_connected():
        return []
    with tf.name_scope(""):  # ranks may differ in savers without tables
        return [begin_lookup(f"tf.train.Saver ({what})", description, "tf.train.Saver.meet")]


def _before_save(tables, steps):
    """What is to run before the tables are read, when steps are held."""
    with tf.control_dependencies([steps]):
        found = [each.table.before_save() for each in tables]
    return [steps.op, *(op for op in found if op is not None)]


def _read_now(tensor):
    """What a saver has as a tensor; of a variable read again, where ops are made now: savers of
    graphs have what was read first, which waits for nothing. None: None."""
    read = tensor if tf.is_symbolic_tensor(tensor) else None
    while read is not None and read.op.type == "Identity":
        read = read.op.inputs[0]
    if read is None or read.op.type != "ReadVariableOp":
        return tensor
    (handle,) = read.op.inputs
    with tf.device(handle.device):
        value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=read.dtype)
    with tf.device("/cpu:0"):
        return tf.identity(value)


def _no_tensor():
    return tf.zeros([0])  # asked for where a saver is to reshape, which tables do not
