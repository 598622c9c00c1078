# SPDX-License-Identifier: Apache-2.0
"""`Placement`: which rank owns which keys of a table, as ops/base/placement.h computes it."""

from __future__ import annotations

import dataclasses
import enum
import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from sok_compat.engine import _engine
from sok_compat.ranks.collectives import number_of_graph
from sok_compat.ranks.identity import Ranks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class PlacementKind(enum.Enum):
    """How keys are spread; the values are those of the ops' attribute `placement_kind`."""

    MODULO = "modulo"
    ONE_RANK = "one_rank"
    RANGE = "range"
    REPLICATED = "replicated"


@dataclasses.dataclass(frozen=True)
class Placement:
    """Where a table's rows live. Make it with one of the class methods.

    Only a Placement, here or in the op library, computes the owner of a key.
    """

    kind: PlacementKind
    ranks: Ranks
    owner_rank: int = 0  # ONE_RANK
    num_keys: int = 0  # RANGE; MODULO: of all ranks without a hash index, 0: unknown

    def __post_init__(self) -> None:
        if not 0 <= self.owner_rank < self.ranks.size:
            raise ValueError(
                f"owner_rank must be at least 0 and below the {self.ranks.size} ranks, got "
                f"{self.owner_rank}"
            )
        if self.kind is PlacementKind.RANGE and self.num_keys < 1:
            raise ValueError(f"num_keys must be at least 1, got {self.num_keys}")

    @classmethod
    def by_modulo(cls, ranks: Ranks, num_keys: int = 0) -> Placement:
        """Rank floormod(key, number of ranks) owns a key, as in SparseOperationKit and DeepRec.

        Args:
          ranks: the Ranks.
          num_keys: those of a table without a hash index on all ranks; 0: capacity * ranks.
        """
        return cls(PlacementKind.MODULO, ranks, num_keys=num_keys)

    @classmethod
    def on_one_rank(cls, ranks: Ranks, owner_rank: int) -> Placement:
        """One rank owns all keys.

        Raises:
          ValueError: no such rank exists.
        """
        return cls(PlacementKind.ONE_RANK, ranks, owner_rank=owner_rank)

    @classmethod
    def by_range(cls, ranks: Ranks, num_keys: int) -> Placement:
        """Each rank owns a contiguous part of [0, num_keys); the first num_keys % number of
        ranks parts are one key longer.

        Raises:
          ValueError: num_keys is below 1.
        """
        return cls(PlacementKind.RANGE, ranks, num_keys=num_keys)

    @classmethod
    def replicated(cls, ranks: Ranks) -> Placement:
        """Every rank owns all keys, with rows of its own."""
        return cls(PlacementKind.REPLICATED, ranks)

    @property
    def is_spread(self) -> bool:
        """Whether a lookup sends requests to other ranks."""
        return self.ranks.size > 1 and self.kind is not PlacementKind.REPLICATED

    def owner(self, keys: ArrayLike) -> np.ndarray:
        """Returns the rank that owns each of `keys`, int64 of their shape.

        With by_range, keys outside [0, num_keys) belong to the first or last rank, whose table
        refuses them.
        """
        keys = np.ascontiguousarray(keys, np.int64)
        owners = np.empty_like(keys)
        self._in_core.owners(keys.size, keys.ctypes.data, owners.ctypes.data)
        return owners

    def owner_in_graph(self, keys: tf.Tensor) -> tf.Tensor:
        """As `owner`, for a tensor, with by_modulo and on_one_rank.

        Raises:
          NotImplementedError: the placement is another.
        """
        if self.kind is PlacementKind.ONE_RANK:
            return tf.fill(tf.shape(keys), tf.constant(self.owner_rank, tf.int64))
        if self.kind is not PlacementKind.MODULO:
            raise NotImplementedError(
                f"owner_in_graph needs placement by modulo or on one rank, got {self.kind.value}"
            )
        return tf.math.floormod(keys, self.ranks.size)

    def is_owned(self, keys: ArrayLike) -> np.ndarray:
        """Whether this rank owns each of `keys`, bool of their shape."""
        return self.owner(keys) == self.ranks.rank

    def num_rows(self, capacity: int) -> int:
        """Returns the number of rows on this rank, at most `capacity`, in a table without a hash
        index."""
        return self._in_core.num_rows(capacity)

    def key_of_row(self, row_ids: tf.Tensor) -> tf.Tensor:
        """Returns the key of each row of this rank in a table without a hash index."""
        if self.kind is PlacementKind.MODULO:
            return row_ids * self.ranks.size + self.ranks.rank
        if self.kind is PlacementKind.RANGE:
            return row_ids + self.range_begin(self.ranks.rank)
        return row_ids

    def range_begin(self, rank: int) -> int:
        """With by_range: the first key of a rank; num_keys for rank = number of ranks."""
        return self._in_core.range_begin(rank)

    @functools.cached_property
    def _in_core(self) -> _engine.Placement:
        return _engine.Placement(
            self.kind.value, self.ranks.size, self.ranks.rank, self.owner_rank, self.num_keys
        )

    def op_attributes(self) -> dict[str, Any]:
        """Attributes of SokTableInitialize."""
        return {
            "placement_kind": self.kind.value,
            "num_ranks": self.ranks.size,
            "rank": self.ranks.rank,
            "owner_rank": self.owner_rank,
            "num_keys": self.num_keys,
            "graph": number_of_graph() if self.ranks.size > 1 else -1,
        }
