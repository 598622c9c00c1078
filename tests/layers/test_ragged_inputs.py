# SPDX-License-Identifier: Apache-2.0
"""`DistributedEmbedding` on tf.RaggedTensor."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support.bags import sparse_tensor
from tests.support.sessions import initialized_session

SAMPLES = [[[5, 7, 5], []], [[], []], [[7], [8, 9]]]
BAGS = [bag for sample in SAMPLES for bag in sample]
FORMS = {
    "[bags, (keys)]": lambda keys, splits: tf.ragged.constant(BAGS, keys, row_splits_dtype=splits),
    "[batch, slots, (keys)]": lambda keys, splits: tf.ragged.constant(
        SAMPLES, keys, ragged_rank=2, row_splits_dtype=splits
    ),
}


@pytest.fixture
def layer(sok):
    return sok.DistributedEmbedding("mean", 20, 4, 2, max_nnz=3)


@pytest.mark.parametrize("keys, splits", [
    (tf.int64, tf.int32), (tf.int64, tf.int64), (tf.int32, tf.int64),
], ids=["int64-int32", "int64-int64", "int32-int64"])  # fmt: skip
@pytest.mark.parametrize("make", FORMS.values(), ids=FORMS)
def test_equals_the_same_bags_in_a_sparse_tensor(layer, make, keys, splits):
    weights = tf.reshape(tf.range(24.0), [3, 2, 4])
    ragged, sparse = layer(make(keys, splits)), layer(sparse_tensor(BAGS, 3))
    gradients = [
        tf.gradients(tf.reduce_sum(output * weights), [layer.embedding_variable])[0]
        for output in (ragged, sparse)
    ]
    assert ragged.shape.as_list() == [None, 2, 4]
    with initialized_session() as session:
        np.testing.assert_array_equal(*session.run([ragged, sparse]))
        actual, expected = session.run(gradients)
        np.testing.assert_array_equal(actual.indices, expected.indices)
        np.testing.assert_array_equal(actual.values, expected.values)


BAD = {
    "too many keys": ([[1, 2, 3, 4], []], "max_nnz = 3 keys"),
    "rows": ([[1]], "a multiple of slot_num = 2"),
    "slots": ([[[1], [2], [3]]], "must have slot_num = 2 bags"),
}


@pytest.mark.parametrize("bags, message", BAD.values(), ids=BAD)
def test_bad_values(layer, bags, message):
    depth = 2 if message.endswith("bags") else 1
    fed = tf.compat.v1.ragged.placeholder(tf.int64, depth, [])
    output = layer(fed)
    value = tf.compat.v1.ragged.constant_value(bags, np.int64, ragged_rank=depth)
    with initialized_session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            session.run(output, {fed: value})
        assert session.run(layer.embedding_variable.num_keys()) == 0


def test_bad_shape(layer):
    keys_of_two = tf.RaggedTensor.from_row_lengths(tf.ones([2, 2], tf.int64), [1, 1])
    with pytest.raises(ValueError, match=r"RaggedTensor must be .* got shape"):
        layer(keys_of_two)
