# SPDX-License-Identifier: Apache-2.0
"""Tables that hold parts of whole arrays, saved as these: whichever tables hold them later."""

import dataclasses
import gc
import weakref

import tensorflow as tf

from sok_compat.checkpoint.files_of_rank_0 import copy_at
from sok_compat.checkpoint.object_tables import short_titles
from sok_compat.checkpoint.streamed_save import StreamedTable
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.ranks import Ranks
from sok_compat.runtime.tf_versions import BaseSaverBuilder
from sok_compat.tables.table import Table

_PIECE_FLOATS = 1 << 24  # that are read at a time


@dataclasses.dataclass(frozen=True, eq=False)
class WholeVariable:
    """An ordinary variable in the place of a table, of which each rank has all: rank 0 saves it.
    Its slots are with their optimizer.

    variable: float32 [rows, columns].
    saved_parts: as of a Table.
    ranks: the Ranks.
    """

    variable: tf.Variable
    saved_parts: tuple
    ranks: Ranks

    @property
    def table_name(self):
        """Of the variable."""
        return self.variable.name

    @property
    def handle(self):
        """Of the variable."""
        return self.variable.handle

    @property
    def device(self):
        """Of the variable."""
        return self.variable.device

    @property
    def dim(self):
        """Columns."""
        return self.variable.shape[1]

    def before_save(self):
        """Nothing is to be done."""

    def initialize_if_missing(self):
        """Nothing: all of it is about to be written."""
        return tf.no_op()


class PartsSaveable(StreamedTable):
    """Tables with `saved_parts`, and their slots. A checkpoint has of each whole array, as ordinary
    tensors [rows, columns] that ranks have written slices of:
      <name>/<title>/rows
      <name>/<title>/slots/<name of the slot, without the table's>

    Restoring makes each table hold its parts of them, whatever parts they were saved in. In eager
    mode slots that optimizers make later get theirs then. What the checkpoint lacks, or has in
    another shape, raises on all ranks, and leaves all as it was.
    """

    def __init__(self, tables, name):
        """Makes no ops.

        Args:
          tables: Tables of all ranks, and WholeVariables, in the same order on all; at least one.
          name: what all titles begin with in the checkpoint.
        """
        super().__init__(tables[0], name)
        self._tables = list(tables)

    @property
    def tables(self):
        """See the base class."""
        return [table for table in self._tables if isinstance(table, Table)]

    def description(self):
        """See the base class."""
        shapes = {part.title: part.shape for table in self._tables for part in table.saved_parts}
        return f"parts of {sorted(shapes.items())}"

    def specs_of_rank(self):
        """[SaveSpec] of this rank's rows and slots, all of which then have memory."""
        gc.collect()  # of two optimizers of one kind the first may be nobody's
        specs = []
        for table, part in self._own_parts(to_save=True):
            with tf.device(table.device):
                row_ids = _row_ids(table, part, 0, part.num_rows)
                planes = [("rows", table), *_slots_of(table)]
                for title, plane in planes:
                    values = tf.raw_ops.ResourceGather(
                        resource=plane.handle, indices=row_ids, dtype=tf.float32
                    )
                    full = f"{self.name}/{part.title}/{title}"
                    specs.append(
                        BaseSaverBuilder.SaveSpec(
                            values, part.slice_spec(table.dim), full, tf.float32, table.device
                        )
                    )
        return specs

    def save(self, checkpoint, tickets):
        """Nothing more than the specs."""
        del checkpoint, tickets
        return tf.no_op()

    def restore(self, restored_tensors, restored_shapes):
        """The op that fills the tables; None in eager mode."""
        del restored_tensors, restored_shapes
        if tf.executing_eagerly():
            self._check_all_are_there()
        done = list(self.restored[-1:])
        for table, part in self._own_parts():
            done = [self._restored(table, part, done)]
        restored = tf.group(*[each for each in done if each is not None])
        if not tf.executing_eagerly():
            self.restored.append(restored)
        return restored

    def _own_parts(self, to_save=False):
        """(table, part) of those that this rank has; of what all have, to save it, on rank 0."""
        for table in self._tables:
            for part in table.saved_parts:
                if isinstance(table, WholeVariable):
                    is_own = not to_save or table.ranks.rank == 0
                else:
                    is_own = bool(table.placement.is_owned([part.first_key])[0])
                if is_own and part.num_rows:
                    yield table, part

    def _restored(self, table, part, before):
        in_graph = not tf.executing_eagerly()
        with tf.control_dependencies(before if in_graph else []), tf.device(table.device):
            slots = _slots_of(table)
            parts = [table, *(slot for _, slot in slots)] if in_graph else []
            ready = [one.initialize_if_missing() for one in parts]
            with tf.control_dependencies(ready):
                written = [
                    self._written(self.path, table, part, title, plane)
                    for title, plane in (("rows", table), *slots)
                ]
        return tf.group(*written) if in_graph else None

    def _written(self, path, table, part, title, plane):
        """Piece by piece: memory for little at a time."""
        done = []
        for begin, end in _pieces(part.num_rows, table.dim):
            with tf.control_dependencies(done):
                (values,) = tf.raw_ops.RestoreV2(
                    prefix=path,
                    tensor_names=[f"{self.name}/{part.title}/{title}"],
                    shape_and_slices=[part.slice_spec(table.dim, begin, end)],
                    dtypes=[tf.float32],
                )
                written = tf.raw_ops.ResourceScatterUpdate(
                    resource=plane.handle,
                    indices=_row_ids(table, part, begin, end),
                    updates=values,
                )
            done = [] if written is None else [written]
        return tf.group(*done)

    def _check_all_are_there(self):
        """In eager mode: of all ranks' tables, so that all raise alike."""
        path = self.path.numpy().decode()
        shapes = tf.train.load_checkpoint(path).get_variable_to_shape_map()
        for table in self._tables:
            titles = [title for title, _ in _slots_of(table)]
            for part in table.saved_parts:
                base = f"{self.name}/{part.title}"
                for title in ("rows", *titles):
                    _check_shape(path, f"{base}/{title}", part.shape, shapes)
        for table in self.tables:
            self._await_slots(table, path, shapes)

    def _await_slots(self, table, path, shapes):
        """From now on slots that are made hold what the checkpoint has of them."""
        known, copy_to_keep = weakref.ref(table), copy_at(path)

        def fill(slot, copy_to_keep=copy_to_keep):
            of_slot = known()
            ((title, _),) = [each for each in _slots_of(of_slot) if each[1] is slot]
            for own, part in self._own_parts():
                full = f"{self.name}/{part.title}/{title}"
                if own is of_slot and full in shapes:
                    _check_shape(path, full, part.shape, shapes)
                    with tf.device(own.device):
                        self._written(tf.constant(path), own, part, title, slot)

        has_slots = any(f"{self.name}/{part.title}/slots/" in title
                        for part in table.saved_parts for title in shapes)  # fmt: skip
        table.fill_slot = fill if has_slots else None


def _row_ids(table, part, begin, end):
    """Of the part's rows [begin, end), which have memory then."""
    keys = tf.range(part.first_key + begin, part.first_key + end, dtype=tf.int64)
    if isinstance(table, WholeVariable):
        return keys
    (row_ids,) = ops.sok_find_rows(
        [table.table_handle], [keys], insert=True, keys_are_distinct=True
    )
    return row_ids


def _slots_of(table):
    """[(title, slot)]: those of the graph's, or in eager mode those that are there."""
    if isinstance(table, WholeVariable):
        return []
    in_graph = not tf.compat.v1.executing_eagerly_outside_functions()
    slots = table.slots if in_graph else table.living_slots()
    titles = short_titles(table, slots)
    return [(f"slots/{title}", slot) for title, slot in zip(titles, slots)]


def _pieces(num_rows, width):
    step = max(1, _PIECE_FLOATS // width)
    return [(begin, min(begin + step, num_rows)) for begin in range(0, num_rows, step)]


def _check_shape(path, title, shape, shapes):
    if title not in shapes:
        raise tf.errors.NotFoundError(
            None, None, f"the checkpoint {path} has no {title}: it was made of other tables, or "
            "without these slots; restore before optimizers have made theirs to start them afresh",
        )  # fmt: skip
    if tuple(shapes[title]) != tuple(shape):
        raise tf.errors.InvalidArgumentError(
            None, None, f"{title} in the checkpoint {path} has the shape {shapes[title]}, and the "
            f"table is {list(shape)}",
        )  # fmt: skip
