# SPDX-License-Identifier: Apache-2.0
"""`Shows`: which rows a table and its slots show to an optimizer, as variables of these rows."""

from __future__ import annotations

import threading
from typing import Any

import tensorflow as tf


class Shows:
    """What a table and its slots show: all rows, as users see them.

    row_ids: int64 [n], of the shown rows; None: all, by their ids.
    """

    row_ids: tf.Tensor | None = None

    def shape(self, whole: tf.TensorShape, is_vector: bool) -> tf.TensorShape:
        """Returns the shape of the shown rows, of a variable of the shape `whole`."""
        del is_vector
        return whole

    def rows_at(self, places: Any) -> Any:
        """Returns the ids of the rows at places; None: the variable knows what these mean."""
        del places


class AllRows(Shows):
    """All rows, at their ids."""

    def rows_at(self, places: Any) -> Any:
        return places


class SomeRows(Shows):
    """A small number of rows, shown instead of the capacity while slots are made."""

    def __init__(self, num_rows: int | None) -> None:
        """Takes the number; None: it is known when run."""
        self.num_rows = num_rows

    def shape(self, whole: tf.TensorShape, is_vector: bool) -> tf.TensorShape:
        return tf.TensorShape([self.num_rows] if is_vector else [self.num_rows, whole[1]])


class RowsInUse(SomeRows):
    """The rows of a step, or all in use, at their places among these."""

    row_ids: tf.Tensor

    def __init__(self, row_ids: tf.Tensor) -> None:
        """Takes row ids, int64 [n], distinct; ascending, for `localized`."""
        super().__init__(None)
        self.row_ids = row_ids

    def rows_at(self, places: Any) -> Any:
        return tf.gather(self.row_ids, places)

    def localized(self, gradient: tf.Tensor | tf.IndexedSlices) -> tf.Tensor | tf.IndexedSlices:
        """Converts a gradient of the table (row ids, or [capacity, dim]) to the shown rows."""
        if not isinstance(gradient, tf.IndexedSlices):
            return tf.gather(gradient, self.row_ids)
        places = tf.searchsorted(self.row_ids, tf.cast(gradient.indices, tf.int64))
        shape = [tf.size(self.row_ids), gradient.values.shape[1]]
        return tf.IndexedSlices(gradient.values, places, tf.stack(shape))


TO_USERS = Shows()


class Shown(threading.local):
    """What a table and its slots show to each thread."""

    now: Shows = TO_USERS
