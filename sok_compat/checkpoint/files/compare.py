# SPDX-License-Identifier: Apache-2.0
"""Compares tables key by key; their keys, all in memory, may be in different orders."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.files.saved_tables import SavedTable
from sok_compat.checkpoint.files.stored_array import PIECE_BYTES


@dataclasses.dataclass
class PlaneDifference:
    """The difference of one plane of both tables, over their common keys.

    Attributes:
      problem: why the planes cannot be compared; None if they were.
      num_rows: number of rows that differ.
      largest: largest difference of two numbers; NaN if one of them is.
    """

    problem: str | None = None
    num_rows: int = 0
    largest: float = 0.0


@dataclasses.dataclass
class TableDifference:
    """The difference of two tables."""

    num_common: int = 0
    only_in_first: int = 0
    only_in_second: int = 0
    examples: tuple = ((), ())  # keys that only the first or only the second table has
    planes: dict = dataclasses.field(default_factory=dict)  # {name: PlaneDifference}
    planes_in_one: tuple = ()  # names of planes that only one of them has

    @property
    def is_empty(self) -> bool:
        """Whether the tables are equal."""
        are_equal = all(p.problem is None and p.num_rows == 0 for p in self.planes.values())
        no_more = not (self.only_in_first or self.only_in_second or self.planes_in_one)
        return no_more and are_equal


def compare_tables(
    first: SavedTable, second: SavedTable, slot_names: Mapping[str, str] | None = None
) -> TableDifference:
    """Compares two tables.

    Args:
      first, second: tables whose checksums the caller has verified.
      slot_names: {name of a slot of the first: its name in the second}; None if names are equal.

    Raises:
      FileError: a table has a key twice.
    """
    pairs = {name: (slot_names or {}).get(name, name) for name in first.planes}
    lacking = [name for name, other in pairs.items() if other not in second.planes]
    lacking += sorted(second.planes.keys() - pairs.values())
    found = TableDifference(planes_in_one=tuple(lacking))
    planes = {}
    for name in sorted(pairs.keys() - lacking):
        arrays = first.planes[name], second.planes[pairs[name]]
        found.planes[name] = PlaneDifference(_problem(*arrays))
        if found.planes[name].problem is None:
            planes[name] = arrays
    keys, places = sorted_keys(first.keys.whole(), first.keys.paths)
    other_keys, other_places = sorted_keys(second.keys.whole(), second.keys.paths)
    common, mine, theirs = np.intersect1d(keys, other_keys, assume_unique=True, return_indices=True)
    found.num_common = common.size
    found.only_in_first = keys.size - common.size
    found.only_in_second = other_keys.size - common.size
    found.examples = tuple(
        tuple(np.setdiff1d(own, common, assume_unique=True)[:3].tolist())
        for own in (keys, other_keys)
    )
    places, other_places = places[mine], other_places[theirs]
    order = np.argsort(places)
    places, other_places = places[order], other_places[order]
    for name, arrays in planes.items():
        most = max(1, PIECE_BYTES // max(1, arrays[0].row_bytes))
        for begin in range(0, places.size, most):
            chosen = slice(begin, begin + most)
            rows = arrays[0].take(places[chosen]), arrays[1].take(other_places[chosen])
            _compare_rows(*rows, found.planes[name])
    return found


def sorted_keys(keys: np.ndarray, paths: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """(a table's keys as int64, ascending; their places among those given).

    Raises:
      FileError: a key is there twice.
    """
    places = np.argsort(keys, kind="stable")
    keys = keys[places].astype(np.int64)
    repeated = keys[1:][keys[1:] == keys[:-1]]
    if repeated.size:
        raise FileError(f"{', '.join(paths)}: the key {repeated[0]} is there twice")
    return keys, places


def _compare_rows(rows, others, found):
    """Adds to a PlaneDifference; NaN equals NaN, and 0.0 equals -0.0."""
    differ = (rows != others) & ~((rows != rows) & (others != others))
    if not differ.any():
        return
    found.num_rows += int(differ.reshape(len(rows), -1).any(axis=1).sum())
    gaps = np.abs(rows[differ].astype(np.float64) - others[differ].astype(np.float64))
    found.largest = float(np.maximum(found.largest, gaps.max()))


def _problem(array, other):
    if array.shape[1:] == other.shape[1:]:
        return None
    return f"{array.shape[1]} floats in a row, and {other.shape[1]}"
