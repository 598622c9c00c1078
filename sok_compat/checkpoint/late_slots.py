# SPDX-License-Identifier: Apache-2.0
"""Slots that an optimizer makes after its table was restored, in eager mode."""

import logging
import weakref

import numpy as np
import tensorflow as tf

from sok_compat.checkpoint.files.bundle import Bundle
from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.files.stored_array import PIECE_BYTES, together
from sok_compat.checkpoint.files_of_rank_0 import copy_at
from sok_compat.runtime.op_library import ops


class LateSlots:
    """What a checkpoint has of a table's slots, of which some are not there yet."""

    def __init__(self, table, name, path):
        """Reads the names.

        Args:
          table: the Table.
          name: of it in the checkpoint.
          path: of the checkpoint, a scalar string tensor with a value.
        """
        self._table = weakref.ref(table)
        self._name, self._path = name, path.numpy().decode()
        self._copy = copy_at(self._path)  # which stays until then
        names = tf.train.load_checkpoint(self._path).get_variable_to_shape_map()
        self._titles = {title for title in names if title.startswith(f"{name}/slots/")}
        self._taken = set()

    def takes(self, title):
        """Whether the checkpoint has this slot; it is taken from there now."""
        if title in self._titles:
            self._taken.add(title)
        return title in self._titles

    def raise_for_missing(self, titles):
        """Raises tf.errors.NotFoundError where it lacks one of these slots."""
        missing = sorted(set(titles) - self._titles)
        if missing:
            table = self._table()
            raise tf.errors.NotFoundError(
                None,
                None,
                f"the checkpoint {self._path} has no {missing} of the table {table.table_name}, "
                f"which an optimizer has made; its slots there: {sorted(self._titles) or 'none'}. "
                "To start slots afresh, restore before the optimizer has made them, or take keys "
                f"and rows alone: sok_compat.checkpoint.assign_from(table, {self._path!r}, "
                f"{self._name!r})",
            )

    def await_slots(self, title_of):
        """From now on slots that are made hold what the checkpoint has of them.

        Args:
          title_of: a function of a slot: its name in the checkpoint.
        """
        is_complete = self._taken == self._titles
        self._table().fill_slot = None if is_complete else lambda s: self._fill(s, title_of(s))

    def _fill(self, slot, title):
        if not self.takes(title):
            logging.getLogger(__name__).warning(
                "%s starts afresh: the checkpoint %s, which the table was restored from, has of "
                "its slots %s", slot.name, self._path, sorted(self._titles),
            )  # fmt: skip
            return
        for keys, rows in self._pieces(slot, title):
            self._write(slot, keys, rows)

    def _pieces(self, slot, title):
        """Yields (keys [n], rows [n, width])."""
        try:
            keys, rows = self._arrays(title)
            if rows.shape != (keys.shape[0], slot.width):
                raise tf.errors.InvalidArgumentError(
                    None,
                    None,
                    f"{title} in the checkpoint {self._path} has the shape {list(rows.shape)}, and "
                    f"{slot.name} is {slot.width} wide, of {keys.shape[0]} keys",
                )
            if isinstance(rows, np.ndarray):
                yield keys, rows
            else:
                yield from together([keys, rows], max(1, PIECE_BYTES // rows.row_bytes))
        except (FileError, OSError) as error:
            raise tf.errors.DataLossError(
                None,
                None,
                f"{slot.name} cannot be filled from the checkpoint that its table was restored "
                f"from, which must stay until optimizers have made their slots: {error}",
            ) from error

    def _arrays(self, title):
        names = f"{self._name}/keys", title
        if "://" in self._path:
            reader = tf.train.load_checkpoint(self._path)
            return [reader.get_tensor(name) for name in names]
        bundle = Bundle(self._path)
        return [bundle.array(name) for name in names]

    def _write(self, slot, keys, rows):
        table = self._table()
        is_owned = table.placement.is_owned(keys)
        with tf.device(table.device):
            (row_ids,) = ops.sok_find_rows(
                [table.table_handle],
                [keys[is_owned]],
                [],
                insert=False,
                keys_are_distinct=True,
            )
            is_held = row_ids.numpy() >= 0
            tf.raw_ops.ResourceScatterUpdate(
                resource=slot.handle, indices=row_ids[is_held], updates=rows[is_owned][is_held]
            )
