# SPDX-License-Identifier: Apache-2.0
"""Bags as TensorFlow has them, turned into keys, row splits and weights for a whole group."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.lookup.bags_of_keys import BagsOfKeys, split_bags
from tests.support.bags import sparse_tensor

tf1 = tf.compat.v1
BAGS = [[5, 7, 5], [], [8], []]


def ragged(rows, dtype=tf.int64, splits=tf.int64):
    return tf.ragged.constant(rows, dtype, row_splits_dtype=splits)


def test_a_group_of_all_forms(graph):
    samples = tf.ragged.constant([BAGS[:2], BAGS[2:]], tf.int64, ragged_rank=2)
    weights = [[1.0, 2.0, 3.0], [], [4.0], []]
    sparse_weights = sparse_tensor(weights, 3, tf.float32)
    group = [
        BagsOfKeys(sparse_tensor(BAGS, 3), "a", bags_per_sample=2, max_nnz=3),
        BagsOfKeys(ragged(BAGS, splits=tf.int32), "b"),
        BagsOfKeys(sparse_tensor(BAGS, 3), "c", weights=sparse_weights),
        BagsOfKeys(samples, "d", bags_per_sample=2, max_nnz=3),
        BagsOfKeys(ragged(BAGS), "e", weights=ragged(weights, tf.float32)),
    ]
    splits = split_bags(group)
    types = [op.type for op in graph.get_operations()]
    assert types.count("SokRowSplits") == types.count("SokCheckedSplits") == 1
    with tf1.Session() as session:
        for one, split in zip(group, splits):
            np.testing.assert_array_equal(session.run(split.keys), [5, 7, 5, 8])
            np.testing.assert_array_equal(session.run(split.row_splits), [0, 3, 3, 4, 4])
            if one.weights is None:
                assert split.weights is None
            else:
                np.testing.assert_array_equal(session.run(split.weights), [1, 2, 3, 4])


def test_bags_that_share_indices_have_splits_of_their_own_where_these_differ(graph):
    indices = tf.constant([[0, 0], [0, 1], [2, 0]], tf.int64)
    keys, twice_as_many = (tf1.placeholder_with_default([5, 7, 8] * n, [None]) for n in (1, 2))
    shapes = [tf.constant([rows, 2], tf.int64) for rows in (3, 3, 4)]
    bags = [tf.SparseTensor(indices, keys, shape) for shape in (shapes[0], *shapes)]
    bags.append(tf.SparseTensor(indices, twice_as_many, shapes[0]))
    names = ["first", "same", "equal", "longer", "too many"]
    splits = [split.row_splits for split in split_bags(list(map(BagsOfKeys, bags, names)))]
    narrow = split_bags([BagsOfKeys(bags[0], "wide"), BagsOfKeys(bags[0], "narrow", max_nnz=1)])
    with tf1.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="too many: .* 3 indices and 6 va"):
            session.run(splits)
        with pytest.raises(tf.errors.InvalidArgumentError, match="narrow: row 0 .* max_nnz = 1"):
            session.run(narrow[0].row_splits)
        splits = [split.row_splits for split in split_bags(list(map(BagsOfKeys, bags[:4], names)))]
        for split in session.run(splits[:3]):
            np.testing.assert_array_equal(split, [0, 2, 2, 3])
        np.testing.assert_array_equal(session.run(splits[3]), [0, 2, 2, 3, 3])


BAD_SPLITS = {
    "do not begin at 0": [1, 2],
    "begin below 0": [-5, 2],
    "descend": [0, 3, 2],
    "go below 0": [0, -1, 2],
    "descend inside": [0, 2, 1, 2],
    "end early": [0, 1],
    "end late": [0, 3],
    "are none": [],
}


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
@pytest.mark.parametrize("row_splits", BAD_SPLITS.values(), ids=BAD_SPLITS)
def test_row_splits_that_are_none(graph, row_splits, dtype):
    fed = tf1.placeholder(dtype, [None])
    bags = tf.RaggedTensor.from_row_splits(tf.constant([7, 9], tf.int64), fed, validate=False)
    (split,) = split_bags([BagsOfKeys(bags, "my layer", max_nnz=9)])
    with (
        tf1.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match="my layer: the row_splits of the Rag"),
    ):
        session.run(split.row_splits, {fed: row_splits})


def fed_samples(outer, inner):
    values = tf.constant([1, 2, 3, 4], tf.int64)
    inner = tf.RaggedTensor.from_row_splits(values, inner, validate=False)
    return tf.RaggedTensor.from_row_splits(inner, outer, validate=False)


@pytest.mark.parametrize(
    "outer, message",
    [([0, 1, 4], "must have bags_per_sample = 2 bags"), ([1, 3, 4], "row_splits of the Ragged")],
)
def test_samples_of_another_number_of_slots(graph, outer, message):
    fed = tf1.placeholder(tf.int64, [None])
    bags = fed_samples(fed, tf.constant([0, 1, 2, 3, 4], tf.int64))
    (split,) = split_bags([BagsOfKeys(bags, "x", bags_per_sample=2)])
    with (
        tf1.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match=message),
    ):
        session.run(split.row_splits, {fed: outer})


@pytest.mark.parametrize("form", ["sparse", "ragged"])
def test_wrong_weights(graph, form):
    make = (lambda rows, dtype: sparse_tensor(rows, 3, dtype)) if form == "sparse" else ragged
    bags = make(BAGS, tf.int64)
    with pytest.raises(TypeError, match="sp_weights must be float32, got int64"):
        split_bags([BagsOfKeys(bags, "x", weights=bags)])
    with pytest.raises(TypeError, match="sp_weights must have the form of sp_ids"):
        split_bags([BagsOfKeys(bags, "x", weights=tf.constant([1.0]))])


@pytest.mark.parametrize("form, weights, message", [
    ("sparse", [[1, 2]], r"x: sp_weights must have the shape of the ids"),
    ("sparse", [[1, 2], [3], [4], []], r"the indices of the ids, .* have 1 at 4 .* have 0"),
    ("sparse", [[1, 2, 3], [], [], []], r"have nothing at 6 .* have 2"),
    ("ragged", [[1, 2]], "x: sp_weights must have the row_splits of the ids"),
    ("ragged", [[1, 2, 3], [], [], [4]], "have 3 at 3 .* have 4"),
])  # fmt: skip
def test_weights_in_other_places(graph, form, weights, message):
    make = (lambda rows, dtype: sparse_tensor(rows, 3, dtype)) if form == "sparse" else ragged
    weights = [[float(weight) for weight in bag] for bag in weights]
    given = BagsOfKeys(make(BAGS, tf.int64), "x", weights=make(weights, tf.float32))
    (split,) = split_bags([given])
    with tf1.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=message):
        session.run(split.weights)


def test_another_number_of_weights(graph):
    bags, one = sparse_tensor(BAGS, 3), tf1.placeholder_with_default([1.0], [None])
    (split,) = split_bags([BagsOfKeys(bags, "x", weights=bags.with_values(one))])
    message = "x: sp_weights has 1 values for the 4 places"
    with tf1.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=message):
        session.run(split.weights)


def test_any_number_of_keys(graph):
    bags = [list(range(1000))]
    for form in (sparse_tensor(bags, 1000), ragged(bags)):
        (split,) = split_bags([BagsOfKeys(form, "x")])
        with tf1.Session() as session:
            np.testing.assert_array_equal(session.run(split.row_splits), [0, 1000])
