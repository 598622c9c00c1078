# SPDX-License-Identifier: Apache-2.0
"""Ops that write tables to files of SparseOperationKit, all at one moment, and that read these."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from sok_compat.checkpoint.streams.checked_restore import CheckedRestore
from sok_compat.checkpoint.streams.progress import bytes_of_rows, logged
from sok_compat.checkpoint.streams.streamed_save import (
    StreamedTable,
    before_save,
    checkpoint_barrier,
    collectives_of,
)
from sok_compat.runtime.error_texts import first_line
from sok_compat.runtime.graphs import state_of
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import members
from sok_compat.tables.slots.slot_variable import SlotVariable
from sok_compat.tables.table import Table


class DumpedTable(StreamedTable):
    """A table with its place in a dump."""

    def __init__(
        self,
        table: Table,
        name: str,
        key_dtype: tf.DType | str | None,
        file_format: str,
        slots: Mapping[tuple[str, str], SlotVariable] | None = None,
        other_optimizers: Mapping[str, str] | None = None,
        num_keys: int | None = None,
    ) -> None:
        """Creates no ops.

        Args:
          name: of the dumped table; its files' names begin with it.
          key_dtype: of the keys in files that are written.
          file_format: 'pair', of SparseOperationKit 1: keys and rows; or 'headed', of
            SparseOperationKit 2.
          slots: {(optimizer, slot): SlotVariable}, names as in the files.
          other_optimizers: {optimizer: another name of it in files that are read}.
          num_keys: the keys are 0 to num_keys - 1, and files hold all of them; None: any keys.
        """
        slots, others = slots or {}, other_optimizers or {}
        self._key_dtype = tf.dtypes.as_dtype(key_dtype)
        self._attributes = {
            "format": file_format,
            "table_name": name,
            "slot_names": [slot.plane_name for slot in slots.values()],
            "optimizers": [optimizer for optimizer, _ in slots],
            "slots": [slot for _, slot in slots],
            "other_optimizers": [others.get(optimizer, "") for optimizer, _ in slots],
            "num_keys": -1 if num_keys is None else num_keys,
        }
        super().__init__(table, name, slots.values())

    def description(self) -> str:
        return f"{self.table.kind()}, dumped as {[*self._attributes.values()]}"

    def num_bytes(self) -> tf.Tensor:
        """About how many bytes its files have of this rank, a scalar int64 tensor."""
        width = self.table.dim + sum(slot.width for slot in self.slots)
        return bytes_of_rows(self.table, self._key_dtype.size + 4 * width)

    def dump(self, dump: tf.Tensor, folder: tf.Tensor, collectives: list[tf.Tensor]) -> Any:
        """Returns the op that adds the table to an open dump, a scalar variant tensor."""
        return ops.sok_dump_table(
            self.table.table_handle,
            dump,
            folder,
            collectives,
            Tkey=self._key_dtype,
            **self._attributes,
        )

    def check(self, path: tf.Tensor, reads: tf.Tensor, collectives: list[tf.Tensor]) -> Any:
        """See the base class; `path` is the folder."""
        with tf.device(self.table.device):
            return ops.sok_check_dump(
                self.table.table_handle,
                path,
                reads,
                collectives,
                Tkey=getattr(self.table, "key_dtype_of_ids", self.table.key_dtype),
                **self._attributes,
            )

    def restore_from(self, folder: tf.Tensor, collectives: list[tf.Tensor]) -> Any:
        """Returns the op that fills the table."""
        with tf.device(self.table.device):
            return ops.sok_restore_table(
                self.table.table_handle,
                folder,
                collectives,
                Tkey=getattr(self.table, "key_dtype_of_ids", self.table.key_dtype),
                **self._attributes,
            )


@tf.autograph.experimental.do_not_convert
def dump_tables(folder: tf.Tensor, tables: Sequence[DumpedTable]) -> tf.Operation | None:
    """Returns the op that dumps tables; in eager mode dumps them.

    All ranks run it with the same tables, at least one, and rank 0 writes. The files hold all of a
    step, or none of it. They replace earlier dumps of these tables, of all at once, when they are
    complete. The folder is made if need be.
    """
    if tf.executing_eagerly():
        # One step of all ranks, which fails as a whole.
        @tf.function(autograph=False)
        def dump_all() -> None:
            _dump(folder, tables)

        dump_all.get_concrete_function()()  # no warning of many functions
        return None
    return _dump(folder, tables)


@tf.autograph.experimental.do_not_convert
def load_tables(folder: tf.Tensor, tables: Sequence[DumpedTable]) -> tf.Operation | None:
    """Returns the op that fills tables from dumps, all or none; in eager mode fills them.

    All ranks run it. Rank 0 reads the files, which any number of ranks has written.
    """
    # A table alone is replaced as a whole or not at all.
    checked = CheckedRestore(folder, tables, None, reads_data=len(tables) > 1)
    done: list[Any] = []
    end = None
    try:
        for each in tables:
            collectives = collectives_of(each.table.ranks, f"load_{each.name}", each.description())
            with tf.control_dependencies([op for op in done[-1:] if op is not None]):
                done.append(each.restore_from(checked.path, collectives))
    finally:
        end = checked.end([op for op in done if op is not None])
    return end


def run_logged(
    what: str,
    folder: str,
    tables: Sequence[DumpedTable],
    session: Any,
    make: Callable[[tf.Tensor, Sequence[DumpedTable]], tf.Operation | None],
    num_bytes: int = 0,
) -> None:
    """Dumps or loads tables now, with a log of its progress.

    Args:
      what: "dumping" or "loading".
      folder: of the files.
      session: that has the tables, in a graph that keeps the ops; None in eager mode.
      make: dump_tables or load_tables.
      num_bytes: that will be moved; 0: those of the tables.
    """
    if session is None:
        run = functools.partial(make, tf.constant(folder), tables)
        num_bytes = num_bytes or int(_bytes_of(tables))
    else:
        path, op, size = _ops_in(session.graph, make, tables)
        run = functools.partial(session.run, op, {path: folder})
        num_bytes = num_bytes or int(session.run(size))
    try:
        with logged(f"{what} {folder}", num_bytes):
            run()
    except tf.errors.OpError as error:  # without the stack of the graph's ops
        raise type(error)(None, None, first_line(error, 4000)) from None


def _ops_in(graph, make, tables):
    """(placeholder of the folder, op, tensor of the tables' bytes), made once for each graph."""
    known = state_of(graph).dumps
    key = (make, *((each.table.table_name, each.description()) for each in tables))
    if key not in known:
        with members.extending(graph):
            path = tf.compat.v1.placeholder(tf.string, [])
            known[key] = path, make(path, tables), _bytes_of(tables)
    return known[key]


def _bytes_of(tables):
    return tf.add_n([each.num_bytes() for each in tables])


def _dump(folder: tf.Tensor, tables: Sequence[DumpedTable]) -> tf.Operation:
    ranks = max((each.table.ranks for each in tables), key=lambda ranks: ranks.size)
    # Begins all collectives first, so that other ranks do not wait for a rank that fails.
    lines = [each.description() for each in tables]
    to_hold = collectives_of(ranks, "dump", "\n".join(lines))
    to_dump = [
        collectives_of(each.table.ranks, f"dump_{each.name}", line)
        for each, line in zip(tables, lines)
    ]
    to_commit = collectives_of(ranks, "commit_dump")
    with tf.device("/cpu:0"):
        steps = checkpoint_barrier(to_hold)
        with tf.control_dependencies(before_save(tables, steps)):
            dump = ops.sok_begin_dump(steps)
    last = dump.op
    for each, collectives in zip(tables, to_dump):
        with tf.control_dependencies([last]), tf.device(each.table.device):
            last = each.dump(dump, folder, collectives)
    with tf.control_dependencies([last]), tf.device("/cpu:0"):
        return ops.sok_commit_dump(dump, to_commit)
