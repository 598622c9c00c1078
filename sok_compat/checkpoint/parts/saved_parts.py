# SPDX-License-Identifier: Apache-2.0
"""`PartsSaveable`: saves tables that hold parts of larger arrays as the whole arrays."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from sok_compat.checkpoint.parts.object_tables import short_titles
from sok_compat.checkpoint.parts.whole_variable import WholeVariable
from sok_compat.checkpoint.streams.checked_restore import StoredTensor, check_tensors
from sok_compat.checkpoint.streams.files_of_rank_0 import copy_at
from sok_compat.checkpoint.streams.stored_tensors import tensors_in
from sok_compat.checkpoint.streams.streamed_save import StreamedTable
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import BaseSaverBuilder
from sok_compat.tables.rows.row_scatters import gather_rows, scatter_rows
from sok_compat.tables.slots.slot_variable import SlotVariable
from sok_compat.tables.table import Table

_logger = logging.getLogger(__name__)
_PIECE_FLOATS = 1 << 24  # read at a time


class PartsSaveable(StreamedTable):
    """Tables with `storage.parts`, and their slots.

    A checkpoint has each whole array, in the dtype of the rows, and each of its slots, as an
    ordinary tensor [rows, columns]; each rank writes its slices:
      <name>/<title>/rows
      <name>/<title>/slots/<name of the slot, without the table's>

    Restoring fills each table with its parts, whatever parts they were saved in. In eager mode,
    slots that optimizers create later are filled then. If the checkpoint lacks a tensor or has it
    in another shape, all ranks raise, and keep their contents.

    tables: its Tables.
    variables: its WholeVariables.
    """

    def __init__(self, tables: Sequence[Table | WholeVariable], name: str) -> None:
        """Creates no ops.

        Args:
          tables: the Tables of all ranks and the WholeVariables, in the same order on all ranks; at
            least one.
          name: prefix of all titles in the checkpoint.
        """
        first: Any = tables[0]  # a WholeVariable has all attributes that are used
        super().__init__(first, name)
        self._tables = list(tables)
        self.variables = [each for each in tables if isinstance(each, WholeVariable)]

    @property
    def tables(self) -> list[Table]:
        return [table for table in self._tables if not isinstance(table, WholeVariable)]

    def description(self) -> str:
        shapes = {part.title: part.shape for table in self._tables for part in table.storage.parts}
        return f"parts of {sorted(shapes.items())}"

    def specs_of_rank(self) -> list[BaseSaverBuilder.SaveSpec]:
        """SaveSpecs of this rank's rows and slots; allocates missing rows."""
        gc.collect()  # of two optimizers of one kind, the first may be garbage
        specs = []
        for table, part in self._own_parts(to_save=True):
            with tf.device(table.device):
                row_ids = _row_ids(table, part, 0, part.num_rows)
                planes = [("rows", table), *_slots_of(table)]
                for title, plane in planes:
                    values = gather_rows(plane, row_ids)
                    if plane is table and isinstance(table, Table):
                        values = tf.cast(values, table.row_dtype)
                    full = f"{self.name}/{part.title}/{title}"
                    specs.append(
                        BaseSaverBuilder.SaveSpec(
                            values, part.slice_spec(table.dim), full, values.dtype, table.device
                        )
                    )
        return specs

    def saved_variables(self) -> list[tf.Variable]:
        """The variables whose contents it saves: tables and slots."""
        variables = [each.variable for each in self.variables]
        slots = [slot for each in self._tables for slot in each.slots]
        return [*self.tables, *variables, *slots]

    def save(self, checkpoint: tf.Tensor, collectives: list[tf.Tensor]) -> tf.Operation:
        """Returns a no-op: `specs_of_rank` saves all contents."""
        del checkpoint, collectives
        return tf.no_op()

    def _planes(self):
        """See the base class; includes the tables of other ranks, which steps use as well."""
        return [
            each for table in self._tables
            for each in (table, *(slot for _, slot in _slots_of(table)))
        ]  # fmt: skip

    def check(
        self, path: tf.Tensor, reads: tf.Tensor, collectives: list[tf.Tensor]
    ) -> tf.Operation | None:
        """See the base class. Each rank reads the slices that it will restore."""
        if tf.executing_eagerly():  # checks the tables of all ranks, so that all raise alike
            text = path.numpy().decode()
            shapes = _shapes_in(text)
            for title, shape in self._titles().items():
                _check_shape(text, title, shape, shapes)
        tensors = [
            StoredTensor(
                f"{self.name}/{part.title}/{title}",
                part.slice_spec(table.dim),
                tf.float32,
            )
            for table, part in self._own_parts()
            for title in ("rows", *(title for title, _ in _slots_of(table)))
        ]
        return check_tensors(path, reads, collectives, tensors, are_rows=True)

    def restore_from_path(self) -> tf.Operation | None:
        """Returns the op that fills the tables; None in eager mode."""
        if tf.executing_eagerly():
            path = self.path.numpy().decode()
            shapes = _shapes_in(path)
            for table in self._tables:
                self._await_slots(table, path, shapes)
        done = [self.path, *self.restored[-1:]]  # finding rows needs the tables, not the path
        for table, part in self._own_parts():
            done = [self._restored(table, part, done)]
        restored = tf.group(*[each for each in done if each is not None])
        if not tf.executing_eagerly():
            self.restored.append(restored)
        return restored

    def _own_parts(self, to_save=False):
        """Yields (table, part) of this rank; a WholeVariable is saved by rank 0 only."""
        for table in self._tables:
            for part in table.storage.parts:
                if isinstance(table, WholeVariable):
                    is_own = not to_save or table.ranks.rank == 0
                else:
                    is_own = bool(table.placement.is_owned([part.first_key])[0])
                if is_own and part.num_rows:
                    yield table, part

    def _restored(self, table, part, before):
        in_graph = not tf.executing_eagerly()
        with tf.control_dependencies(before if in_graph else []), tf.device(table.device):
            written = [
                self._written(self.path, table, part, title, plane)
                for title, plane in (("rows", table), *_slots_of(table))
            ]
        return tf.group(*written) if in_graph else None

    def _written(self, path, table, part, title, plane):
        """Fills a plane in pieces, to save memory."""
        done = []
        most_rows = max(1, _PIECE_FLOATS // table.dim)
        for begin in range(0, part.num_rows, most_rows):
            end = min(begin + most_rows, part.num_rows)
            with tf.control_dependencies(done):
                values = ops.sok_read_saved_rows(
                    path,
                    tensor=f"{self.name}/{part.title}/{title}",
                    slice=part.slice_spec(table.dim, begin, end),
                )
                row_ids = _row_ids(table, part, begin, end)
                written = scatter_rows(plane, "update", row_ids, values)
            done = [] if written is None else [written]
        return tf.group(*done)

    def _titles(self):
        """{name in the checkpoint: shape} of the tensors to restore: rows of all ranks' tables, and
        slots that this rank has."""
        return {
            f"{self.name}/{part.title}/{title}": part.shape
            for table in self._tables
            for part in table.storage.parts
            for title in ("rows", *(title for title, _ in _slots_of(table)))
        }

    def _await_slots(self, table, path, shapes):
        """Fills slots that are created from now on from the checkpoint."""
        copy_to_keep = copy_at(path)

        def fill(slot, copy_to_keep=copy_to_keep):
            ((title, _),) = [each for each in _slots_of(table) if each[1].handle is slot.handle]
            for part in [part for own, part in self._own_parts() if own is table]:
                full = f"{self.name}/{part.title}/{title}"
                if full not in shapes:
                    _logger.warning(
                        "%s starts afresh: the checkpoint %s, which its table was restored from, "
                        "lacks it", slot.name, path,
                    )  # fmt: skip
                    return
                _check_shape(path, full, part.shape, shapes)
                with tf.device(table.device):
                    self._written(tf.constant(path), table, part, title, slot)

        has_slots = any(f"{self.name}/{part.title}/slots/" in title
                        for part in table.storage.parts for title in shapes)  # fmt: skip
        holder = table.noted_slots if isinstance(table, WholeVariable) else table.storage
        if holder is not None:
            holder.fill_slot = fill if has_slots else None


def joined_parts(
    items: Iterable[tuple[str | None, Any]],
) -> tuple[list[tuple[str | None, Any]], list[PartsSaveable]]:
    """Splits off the tables, in a graph, that are saved as parts of larger arrays.

    A table whose storage has an owner brings in everything that this object saves. Names given to
    the saver for such tables are ignored: parts have the names of the whole arrays.

    Returns:
      (items of all other variables, the PartsSaveables).
    """
    owners = {}
    for _, variable in items:
        table = variable.table if isinstance(variable, SlotVariable) else variable
        storage = getattr(table, "storage", None) or getattr(table, "noted_slots", None)
        owner = getattr(storage, "owner", None)
        if owner is not None:
            owners[id(owner)] = owner
    saveables = [owner.saveable() for owner in owners.values()]
    # By handles, which tables of imported graphs have in common with the graph's variables.
    taken = {variable.handle.ref() for each in saveables for variable in each.saved_variables()}
    return [each for each in items if not taken or _handle_of(each[1]) not in taken], saveables


def _handle_of(variable):
    handle = getattr(variable, "handle", None)
    return handle.ref() if isinstance(handle, tf.Tensor) else None


def _row_ids(table, part, begin, end):
    """Row ids of the part's rows [begin, end); allocates missing ones."""
    keys = tf.range(part.first_key + begin, part.first_key + end, dtype=tf.int64)
    if isinstance(table, WholeVariable):
        return keys
    (row_ids,) = ops.sok_find_rows(
        [table.table_handle], [keys], [], insert=True, keys_are_distinct=True
    )
    return row_ids


def _slots_of(table):
    """[(title, slot)] of a table."""
    slots = table.slots
    planes = map(table.of_slot, slots) if isinstance(table, WholeVariable) else slots
    return [(f"slots/{title}", plane) for title, plane in zip(short_titles(table, slots), planes)]


def _shapes_in(path):
    return {title: shape for title, (_, shape) in tensors_in(path).items()}


def _check_shape(path, title, shape, shapes):
    if title not in shapes:
        raise tf.errors.NotFoundError(
            None, None, f"the checkpoint {path} has no {title}: it has other tables, or lacks "
            "these slots; to start slots afresh, restore before optimizers have made them",
        )  # fmt: skip
    if tuple(shapes[title]) != tuple(shape):
        raise tf.errors.InvalidArgumentError(
            None, None, f"{title} in the checkpoint {path} has the shape "
            f"{list(shapes[title])}, and the table is {list(shape)}",
        )  # fmt: skip
