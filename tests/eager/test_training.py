# SPDX-License-Identifier: Apache-2.0
"""Training in eager mode and in a tf.function equals graph mode, and so plain TensorFlow."""

import itertools

import numpy as np
import pytest

from tests.support.assertions import assert_close, assert_rows_equal
from tests.support.cases.eager_training import train_eagerly
from tests.support.cases.layer_cases import ALL_CASES
from tests.support.cases.optimizer_cases import ALL_OPTIMIZERS
from tests.support.side_by_side import VARIED_STEPS, train_both

CASES = [ALL_CASES[i] for i in (0, 3, 5, 8, 11, 12, 15)]  # each input with and without hash table
OPTIMIZERS = [
    optimizer
    for optimizer in ALL_OPTIMIZERS
    if str(optimizer) in ("sok.optimizers.Adam", "sok.tf.keras.Adam-in-scope", "LazyAdam",
                          "tf1.Adagrad", "tf1.Adam", "keras.SGD", "keras.Adagrad")
]  # fmt: skip


@pytest.fixture(scope="module", params=OPTIMIZERS, ids=str)
def in_a_graph(request):
    """(optimizer, steps, side of tables, side of ordinary variables)."""
    steps = list(itertools.islice(itertools.cycle(VARIED_STEPS), 14))
    return request.param, steps, *train_both(CASES, request.param, steps)


@pytest.mark.parametrize("as_function", [False, True], ids=["eager", "function"])
def test_equals_graph_mode(sok, in_a_graph, as_function):
    optimizer, steps, tables, plain = in_a_graph
    side = train_eagerly(CASES, optimizer, steps, as_function)
    for first, first_in_graph in zip(side.outputs[0], tables.outputs[0]):
        np.testing.assert_array_equal(first, first_in_graph)
    assert np.std(plain.losses) > 0.1
    assert_close(side.losses, tables.losses)
    assert_close(side.losses, plain.losses)
    for layer in range(len(CASES)):
        assert side.rows[layer].keys() == tables.rows[layer].keys()
        assert_rows_equal(side, plain, layer)
        for outputs, expected in zip(side.outputs, plain.outputs):
            assert_close(outputs[layer], expected[layer])
