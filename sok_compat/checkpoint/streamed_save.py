# SPDX-License-Identifier: Apache-2.0
"""The ops of a tf.train.Saver that has tables: all ranks write one checkpoint, as streams."""

import tensorflow as tf

from sok_compat.checkpoint.self_reading import SelfReadingSaveable
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

    def description(self):
        """What all ranks must agree on, a line."""
        raise NotImplementedError

    def save(self, checkpoint, tickets):
        """The op that adds what this rank has of the table.

        Args:
          checkpoint: the one that is being made, a scalar variant tensor.
          tickets: what the op meets those of other ranks with, in a list.
        """
        raise NotImplementedError


def save_checkpoint(path, saveables):
    """The op that makes a checkpoint of a saver's objects, of which some are StreamedTables.

    All ranks that share the tables run it, with the same path. What is no table is rank 0's. The
    checkpoint is there, or is replaced, in one instant, when all ranks have written their parts;
    what fails on one rank fails on all, and leaves what was there.

    Args:
      path: of the checkpoint, a scalar string tensor.
      saveables: BaseSaverBuilder.SaveableObjects.
    """
    tables = [each for each in saveables if isinstance(each, StreamedTable)]
    others = [each for each in saveables if not isinstance(each, StreamedTable)]
    ranks = max((each.table.ranks for each in tables), key=lambda ranks: ranks.size)
    with tf.device("/cpu:0"):
        specs = [spec for each in others for spec in each.specs] if ranks.rank == 0 else []
        with tf.control_dependencies(_before_save(tables)):
            checkpoint = ops.sok_begin_checkpoint(
                path,
                [spec.tensor for spec in specs],
                meeting_tickets(ranks, "save", "\n".join(each.description() for each in tables)),
                names=[spec.name for spec in specs],
                slices=[spec.slice_spec or "" for spec in specs],
                num_ranks=ranks.size,
                rank=ranks.rank,
            )
    last = checkpoint.op
    for each in tables:
        with tf.control_dependencies([last]), tf.device(each.table.device):
            tickets = meeting_tickets(ranks, f"save_{each.name}", each.description())
            last = each.save(checkpoint, tickets)
    with tf.control_dependencies([last]), tf.device("/cpu:0"):
        return ops.sok_commit_checkpoint(checkpoint, meeting_tickets(ranks, "commit"))


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


def _before_save(tables):
    """What is to run before the tables are read."""
    with tf.control_dependencies(None):
        found = [each.table.before_save() for each in tables]
    return [op for op in found if op is not None]


def _no_tensor():
    return tf.zeros([0])  # asked for where a saver is to reshape, which tables do not
