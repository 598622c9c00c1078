# SPDX-License-Identifier: Apache-2.0
"""Compares tables key by key, in bounded memory; their keys may be in different orders."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.files.stored_array import PIECE_BYTES

if TYPE_CHECKING:
    from sok_compat.checkpoint.files.saved_tables import SavedTable

SHARE_KEYS = 1 << 21  # about as many are compared together
_PIECE_KEYS = 1 << 18


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
    num_shares = max(1, -(-max(first.num_keys, second.num_keys) // SHARE_KEYS))
    for share in range(num_shares):
        _compare_share(first, second, planes, share, num_shares, found)
    return found


def keys_of_share(array: Any, share: int, num_shares: int) -> tuple[np.ndarray, np.ndarray]:
    """One of `num_shares` shares of a table's keys, all of about the same size.

    Args:
      array: a StoredArray of keys, or another object with its `pieces` and `paths`.

    Returns:
      (keys, places), int64 [n] each, keys ascending; places: their indices in the array.

    Raises:
      FileError: the share has a key twice.
    """
    pieces, places_of_pieces = [], []
    for first, piece in array.pieces(_PIECE_KEYS):
        piece = piece.astype(np.int64)
        chosen = np.flatnonzero(_share_of(piece, num_shares) == share)
        pieces.append(piece[chosen])
        places_of_pieces.append(chosen + first)
    keys, places = (
        np.concatenate([np.zeros(0, np.int64), *parts]) for parts in (pieces, places_of_pieces)
    )
    order = np.argsort(keys, kind="stable")
    keys, places = keys[order], places[order]
    repeated = keys[1:][keys[1:] == keys[:-1]]
    if repeated.size:
        raise FileError(f"{', '.join(array.paths)}: the key {repeated[0]} is there twice")
    return keys, places


def _compare_share(first, second, planes, share, num_shares, found):
    keys, places = keys_of_share(first.keys, share, num_shares)
    other_keys, other_places = keys_of_share(second.keys, share, num_shares)
    common, mine, theirs = np.intersect1d(keys, other_keys, assume_unique=True, return_indices=True)
    found.num_common += common.size
    found.only_in_first += keys.size - common.size
    found.only_in_second += other_keys.size - common.size
    found.examples = tuple(
        _with_examples(known, own, common) for known, own in zip(found.examples, (keys, other_keys))
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


def _with_examples(known, own, common):
    return known or tuple(np.setdiff1d(own, common, assume_unique=True)[:3].tolist())


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


def _share_of(keys, num_shares):
    mixed = keys.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(32)) % np.uint64(num_shares)
