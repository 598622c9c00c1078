# SPDX-License-Identifier: Apache-2.0
"""Steps that are easy to get wrong equal plain TensorFlow's, with every optimizer."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.support.assertions import (
    assert_close,
    assert_gradients_equal,
    assert_outputs_equal,
    assert_rows_equal,
)
from tests.support.cases.layer_cases import ALL_CASES
from tests.support.cases.optimizer_cases import COMMON_OPTIMIZERS
from tests.support.sessions import initialized_session
from tests.support.side_by_side import VARIED_STEPS, train_both

MILLION = 1_000_000


@dataclasses.dataclass(frozen=True)
class Scenario:
    layer_cases: list
    steps: list  # as in train_both
    num_calls: int = 1


SCENARIOS = {
    # Starts with nothing at all on empty tables.
    "small": Scenario(
        ALL_CASES[::4],
        [(0, True), (4, False), (1, True), (8, True), (1, False), (0, True), (8, True)],
    ),
    "several-calls-of-a-layer": Scenario(ALL_CASES[1::4], VARIED_STEPS, num_calls=3),
}

optimizers = pytest.mark.parametrize("optimizer", COMMON_OPTIMIZERS, ids=str)


@optimizers
@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_equals_tensorflow(scenario, optimizer):
    tables, plain = train_both(
        scenario.layer_cases, optimizer, scenario.steps, num_calls=scenario.num_calls
    )
    assert_close(tables.losses, plain.losses)
    for call in range(len(scenario.layer_cases) * scenario.num_calls):
        assert_outputs_equal(tables, plain, call)
    for layer in range(len(scenario.layer_cases)):
        assert_gradients_equal(tables, plain, layer)
        assert_rows_equal(tables, plain, layer)


@pytest.mark.parametrize("optimizer", COMMON_OPTIMIZERS[::4], ids=str)
def test_a_million_times_the_same_key(sok, optimizer):
    """Sums of that many floats are right to 1e-4, far better than plain sums in float32."""
    bag = tf.SparseTensor(
        tf.stack([tf.zeros([MILLION], tf.int64), tf.range(MILLION, dtype=tf.int64)], axis=1),
        tf.fill([MILLION], tf.constant(7, tf.int64)),
        [1, MILLION],
    )
    tables, plain, outputs, plain_outputs = [], [], [], []
    for combiner, weight in (("sum", MILLION), ("mean", 1)):
        layer = sok.DistributedEmbedding(
            combiner, 4, 3, 1, max_nnz=MILLION, embedding_initializer=tf.constant_initializer(0.5)
        )
        tables.append(layer.embedding_variable)
        outputs.append(layer(bag))
        plain.append(tf.compat.v1.Variable(tf.fill([1, 3], 0.5), use_resource=True))
        plain_outputs.append(tf.gather(plain[-1], [[0]]) * weight)
    gradients, plain_gradients = (
        tf.gradients(tf.reduce_sum(tf.add_n(out)) / MILLION, variables)
        for out, variables in ((outputs, tables), (plain_outputs, plain))
    )
    train = [
        optimizer.train_tables(gradients, tables),
        optimizer.train_reference(plain_gradients, plain),
    ]
    exported = [table.export() for table in tables]
    with initialized_session() as session:
        for _ in range(3):
            for actual, expected in zip(*session.run([outputs, plain_outputs])):
                np.testing.assert_allclose(actual, expected, rtol=1e-4)
            for actual, expected in zip(*session.run([gradients, plain_gradients])):
                np.testing.assert_array_equal(actual.indices, [0])
                np.testing.assert_allclose(actual.values, expected.values, rtol=1e-4)
            session.run(train)
        for (keys, rows), expected in zip(session.run(exported), session.run(plain)):
            assert keys.tolist() == [7]
            np.testing.assert_allclose(rows, expected, rtol=1e-4)
