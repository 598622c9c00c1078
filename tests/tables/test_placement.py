# SPDX-License-Identifier: Apache-2.0
"""Placement: one owner for every key, and the same rows as the op library gives."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.ranks.identity import Ranks
from sok_compat.tables.placement import Placement, PlacementKind

NUM_KEYS = 11
OF_HASHED_KEYS = (PlacementKind.MODULO, PlacementKind.ONE_RANK)


def placement_of(kind, ranks):
    if kind is PlacementKind.ONE_RANK:
        return Placement.on_one_rank(ranks, ranks.size - 1)
    if kind is PlacementKind.RANGE:
        return Placement.by_range(ranks, NUM_KEYS)
    make = {
        PlacementKind.MODULO: lambda ranks: Placement.by_modulo(ranks, NUM_KEYS),
        PlacementKind.REPLICATED: Placement.replicated,
    }
    return make[kind](ranks)


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", PlacementKind)
def test_every_key_has_one_owner_and_one_row(kind, num_ranks):
    keys = np.arange(NUM_KEYS)
    num_owners = np.zeros(NUM_KEYS, int)
    for rank in range(num_ranks):
        placement = placement_of(kind, Ranks(rank, num_ranks))
        owned = keys[placement.is_owned(keys)]
        assert placement.num_rows(NUM_KEYS) == len(owned)
        of_rows = placement.key_of_row(tf.range(len(owned), dtype=tf.int64))
        np.testing.assert_array_equal(of_rows, owned)
        in_graph = placement.owner_in_graph if kind in OF_HASHED_KEYS else placement.owner
        np.testing.assert_array_equal(in_graph(tf.constant(keys)), placement.owner(keys))
        num_owners[owned] += 1
    expected = num_ranks if kind is PlacementKind.REPLICATED else 1
    np.testing.assert_array_equal(num_owners, expected)


def test_negative_keys_have_an_owner():
    placement = Placement.by_modulo(Ranks(0, 3))
    np.testing.assert_array_equal(placement.owner([-1, -3, -(2**63)]), [2, 0, 1])


def test_ranges_are_even():
    placement = Placement.by_range(Ranks(1, 4), 10)
    assert [placement.range_begin(rank) for rank in range(5)] == [0, 3, 6, 8, 10]
    np.testing.assert_array_equal(placement.owner([-5, 0, 2, 3, 9, 10]), [0, 0, 0, 1, 3, 3])


@pytest.mark.parametrize("num_ranks, is_spread", [(1, False), (2, True)])
def test_a_lookup_asks_others_where_there_are_some(num_ranks, is_spread):
    ranks = Ranks(0, num_ranks)
    assert Placement.by_modulo(ranks).is_spread is is_spread
    assert Placement.replicated(ranks).is_spread is False


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="owner_rank must be .* below the 2 ranks, got 2"):
        Placement.on_one_rank(Ranks(0, 2), 2)
    with pytest.raises(ValueError, match="num_keys must be at least 1, got 0"):
        Placement.by_range(Ranks(0, 2), 0)
