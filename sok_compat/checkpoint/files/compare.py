# SPDX-License-Identifier: Apache-2.0
"""Compares tables key by key, in whatever order each has them, in a bounded memory."""

import dataclasses

import numpy as np

from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.files.stored_array import PIECE_BYTES

SHARE_KEYS = 1 << 21  # that are looked at together, about
_PIECE_KEYS = 1 << 18


@dataclasses.dataclass
class PlaneDifference:
    """Of one plane that both have, over the keys that both have.

    Attributes:
      problem: why it cannot be compared; None: it was.
      num_rows: that differ.
      largest: difference of two numbers; nan where one of them is.
    """

    problem: str = None
    num_rows: int = 0
    largest: float = 0.0


@dataclasses.dataclass
class TableDifference:
    """What two tables do not have in common."""

    num_common: int = 0
    only_in_first: int = 0
    only_in_second: int = 0
    examples: tuple = ((), ())  # keys that only the first, the second has
    planes: dict = dataclasses.field(default_factory=dict)  # {name: PlaneDifference}
    planes_in_one: tuple = ()  # names of planes that one of them does not have

    @property
    def is_empty(self):
        """Whether they are equal."""
        are_equal = all(p.problem is None and p.num_rows == 0 for p in self.planes.values())
        no_more = not (self.only_in_first or self.only_in_second or self.planes_in_one)
        return no_more and are_equal


def compare_tables(first, second, slot_names=None):
    """The TableDifference of two SavedTables.

    Args:
      first, second: whose checksums the caller has looked at.
      slot_names: {name of a slot of the first: that of the second}; None: they are the same.

    Raises:
      FileError: one of them has a key twice.
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


def keys_of_share(array, share, num_shares):
    """(keys, places), int64, keys ascending: one of `num_shares` parts of a StoredArray of keys, or
    of an array, of about the same size each.

    Raises:
      FileError: a key is there twice.
    """
    keys, places = [], []
    for first, piece in array.pieces(_PIECE_KEYS):
        piece = piece.astype(np.int64)
        chosen = np.flatnonzero(_share_of(piece, num_shares) == share)
        keys.append(piece[chosen])
        places.append(chosen + first)
    keys, places = (np.concatenate([np.zeros(0, np.int64), *parts]) for parts in (keys, places))
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
        _with_examples(known, held, common)
        for known, held in zip(found.examples, (keys, other_keys))
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


def _with_examples(known, held, common):
    return known if known else tuple(np.setdiff1d(held, common, assume_unique=True)[:3].tolist())


def _compare_rows(rows, others, found):
    """NaN is equal to NaN, and 0.0 to -0.0."""
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
