# SPDX-License-Identifier: Apache-2.0
"""Grouped lookups of DeepRec's API against tf.nn.safe_embedding_lookup_sparse, one by one."""

import concurrent.futures

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings

from sok_compat.deeprec.lookups.group_lookup import (
    group_embedding_lookup,
    group_embedding_lookup_sparse,
)
from sok_compat.deeprec.optimizer_rules.stock_optimizers import GradientDescentOptimizer
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from tests.distributed.launch import has_horovod, reports, run_ranks
from tests.support.deeprec.deeprec_groups import Item, Variables, assert_equals_tensorflow, groups
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
CONFIG = tf1.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)
CONFIG.graph_options.rewrite_options.disable_meta_optimizer = True


@settings(max_examples=8, deadline=None)
@given(groups())
@example(
    (
        Variables((3, 3), (3,)),
        [
            Item(0, "mean", False, "int32", ((1, 1, 2), (), (5,), (), ()), None),
            Item(
                1,
                "sum",
                True,
                "int64",
                ((1, 1, 2), (), (5,), (), ()),
                ((1.0, 2, 3), (), (4,), (), ()),
            ),
            Item(0, "sum", True, "int32", ((2, 7), (), ()), None),
            Item(2, "mean", False, "int64", ((1, 1, 2), ()), ((1.0, 2.0, 3.0), ())),
        ],
        False,
    )
)
@example((Variables((4,), ()), [Item(0, "mean", False, "int64", (), None)], False))
@example((Variables((4,), ()), [Item(0, "mean", False, "int64", ((), ()), None)], True))
def test_equals_tensorflow(group):
    assert_equals_tensorflow(*group, CONFIG)


@pytest.mark.thorough
@pytest.mark.skipif(not has_horovod(), reason="Horovod is not installed: run `make horovod`")
@pytest.mark.parametrize("num_ranks", [2, 4])
def test_equals_tensorflow_on_several_ranks(num_ranks):
    ranks = reports(run_ranks("deeprec.deeprec_groups", num_ranks, timeout=300))
    assert not any(rank["failures"] for rank in ranks), ranks[0]["failures"] or ranks[1]["failures"]
    assert all(rank["groups"] == ranks[0]["groups"] for rank in ranks)


IDS = [[3, 3, 1], [], [2]]


def ragged(bags=IDS, dtype=tf.int64):
    return tf.ragged.constant(bags, dtype=dtype, ragged_rank=1)


@pytest.fixture
def tables(graph):
    ones = tf1.ones_initializer()
    return [get_embedding_variable(n, dim, initializer=ones) for n, dim in (("a", 2), ("b", 3))]


def run(tensors):
    with initialized_session() as session:
        return session.run(tensors)


def test_both_orders_of_arguments(tables):
    ids = [ragged().to_sparse(), ragged()]
    weights = [None, ragged([[1, 2, 3], [], [4]], tf.float32)]
    both = ["sum", "mean"]
    outputs = [
        group_embedding_lookup_sparse(tables, ids, both, weights, "mod", False, 1, "x"),
        group_embedding_lookup_sparse(tables, ids, both, "mod", weights, "y"),
        group_embedding_lookup_sparse(tuple(tables), tuple(ids), tuple(both), tuple(weights)),
    ]
    assert [output[1].name.split("/")[0] for output in outputs[:2]] == ["x", "y"]
    for first, second in run(outputs):
        np.testing.assert_array_equal(first, [[3, 3], [0, 0], [1, 1]])
        np.testing.assert_array_equal(second, [[1] * 3, [0] * 3, [1] * 3])
    (alone,) = group_embedding_lookup_sparse(tables[0], ragged(), None, "div")
    assert alone.shape.as_list() == [3, 2]
    np.testing.assert_array_equal(run(alone), [[1, 1], [0, 0], [1, 1]])


def test_weights_of_ragged_ids_may_be_sparse(tables):
    weights = ragged([[1, 2, 3], [], [4]], tf.float64).to_sparse()
    (output,) = group_embedding_lookup_sparse(tables[:1], [ragged()], ["sum"], [weights])
    np.testing.assert_array_equal(run(output), [[6, 6], [0, 0], [4, 4]])


def test_row_splits_of_32_bits(tables):
    ids = tf.RaggedTensor.from_row_splits([3, 1], tf.constant([0, 1, 1, 2], tf.int32))
    (output,) = group_embedding_lookup_sparse(tables[:1], [ids], ["sum"])
    np.testing.assert_array_equal(run(output), [[1, 1], [0, 0], [1, 1]])


def test_unknown_shapes(tables):
    ids = tf1.sparse_placeholder(tf.int64)
    outputs = [
        *group_embedding_lookup_sparse(tables[0], ids, ["sum"]),
        *group_embedding_lookup_sparse(tables[0], ids, ["sum"], is_sequence=True),
    ]
    assert [output.shape.as_list() for output in outputs] == [[None, 2], [None, None, 2]]
    with initialized_session() as session:
        fed = {ids: tf1.SparseTensorValue(np.array([[1, 0]]), np.array([5]), np.array([2, 1]))}
        for output in session.run(outputs, fed):
            np.testing.assert_array_equal(output.reshape(2, 2), [[0, 0], [1, 1]])


def test_weights_and_ids_are_taken_as_they_are(tables):
    ids, weights = ragged([[-1, 2]]), ragged([[-3.0, 1.0]], tf.float32)
    summed, mean = group_embedding_lookup_sparse(tables, [ids] * 2, ["sum", "mean"], [weights] * 2)
    values = run([summed, mean])
    np.testing.assert_array_equal(values[0], [[-2, -2]])
    np.testing.assert_array_equal(values[1], [[1, 1, 1]])


def test_sequences(tables):
    ordinary = tf1.get_variable("c", initializer=np.arange(8.0, dtype=np.float32).reshape(4, 2))
    weights = ragged([[1, 2, 3], [], [4]], tf.float32)
    first, second = group_embedding_lookup_sparse(
        [tables[0], ordinary], [ragged(), ragged()], None, [weights, None], is_sequence=True
    )
    assert first.shape.as_list() == second.shape.as_list() == [3, 3, 2]
    gradient = tf.gradients(first, tables[0])[0]
    values = run([first, second, tf.reduce_sum(gradient.values)])
    np.testing.assert_array_equal(values[0][..., 0], [[1, 2, 3], [0, 0, 0], [4, 0, 0]])
    np.testing.assert_array_equal(values[1][..., 1], [[7, 7, 3], [0, 0, 0], [5, 0, 0]])
    assert values[2] == 2 * (1 + 2 + 3 + 4)


def test_dense_ids(tables):
    ordinary = tf1.get_variable("c", initializer=np.arange(8.0, dtype=np.float32).reshape(4, 2))
    outputs = group_embedding_lookup(
        [tables[0], ordinary, tables[0]], [[1, 1], tf.constant([[0, 3]]), tf.constant([[2], [1]])]
    )
    assert [output.shape.as_list() for output in outputs] == [[2, 2], [1, 2, 2], [2, 1, 2]]
    values = run(outputs)
    np.testing.assert_array_equal(values[1], [[[0, 1], [6, 7]]])
    np.testing.assert_array_equal(values[2], np.ones([2, 1, 2]))


def test_a_forward_step_gives_no_key_a_row(tables):
    (output,) = group_embedding_lookup_sparse(tables[:1], [ragged()], ["sum"])
    gradient = tf.gradients(output, tables[0])[0]
    with initialized_session() as session:
        session.run(output)
        assert session.run(tables[0].num_keys()) == 0
        session.run(gradient)
        assert session.run(tables[0].num_keys()) == 3


def of_parts():
    return get_embedding_variable("p", 2, partitioner=tf1.fixed_size_partitioner(2))


@pytest.mark.parametrize("arguments, error, message", [
    (lambda a, b: (None, [ragged()], ["sum"]), ValueError, "params must be specified"),
    (lambda a, b: ([a], [ragged()], ["sum", "sum"]), ValueError, "as many sp_ids as combiners"),
    (lambda a, b: ([a, b], [ragged()], ["sum"]), ValueError, "as many params as combiners"),
    (lambda a, b: ([a], [ragged()], ["sum"], [None, None]), ValueError, "as many sp_weights"),
    (lambda a, b: ([a], [ragged()], ["sqrtn"]), ValueError, "must be 'mean' or 'sum', got 'sqrtn'"),
    (lambda a, b: ([a], [tf.constant([[1]])], ["sum"]), ValueError, "must be SparseTensor or"),
    (lambda a, b: ([a], [ragged([[[1]]])], ["sum"]), ValueError, "must have two dimensions"),
    (lambda a, b: ([a], [ragged([[1.0]], tf.float32)], ["sum"]), TypeError, "must be integers"),
    (lambda a, b: (["a"], [ragged()], ["sum"]), TypeError, "must be embedding variables or"),
    (lambda a, b: ([of_parts()], [ragged()], ["sum"]), TypeError, "got p, which has 2 parts"),
    (lambda a, b: ([a], [ragged()], ["sum"], [1.0]), TypeError, "must be None, SparseTensor or"),
    (lambda a, b: ([a], [ragged()], ["sum"], [ragged()]), TypeError, "must be floats, got int64"),
    (lambda a, b: ([a], [ragged().to_sparse()], ["sum"], [ragged([[1.0]], tf.float32)]), TypeError,
     "must be a SparseTensor like"),
])  # fmt: skip
def test_wrong_arguments(tables, arguments, error, message):
    with pytest.raises(error, match=message):
        group_embedding_lookup_sparse(*arguments(*tables))


@pytest.mark.parametrize("is_sequence", [False, True])
def test_weights_in_other_places_train_nothing(tables, is_sequence):
    ids = tf.RaggedTensor.from_row_splits(tf1.placeholder_with_default([3, 3, 1, 2], [None]),
                                          ragged().row_splits)  # fmt: skip
    weights = ragged([[1.0], [2.0], [3.0]], tf.float32)
    (output,) = group_embedding_lookup_sparse(
        tables[:1], [ids], ["sum"], [weights], is_sequence=is_sequence
    )
    train = GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(output), var_list=tables[:1])
    with initialized_session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"sp_ids\[0\]: sp_weights"):
            session.run(train)
        assert session.run(tables[0].num_keys()) == 0


def test_steps_at_once_with_fresh_keys_end():
    """Items of a group are worked on side by side, while other steps insert into their tables."""
    num_threads, num_steps, num_keys = 4, 12, 500
    config = tf1.ConfigProto(inter_op_parallelism_threads=6, intra_op_parallelism_threads=4)
    config.operation_timeout_in_ms = 120_000
    with tf.Graph().as_default():
        keys = tf1.placeholder(tf.int64, [None])
        bags = tf.RaggedTensor.from_uniform_row_length(keys, 5)
        variables = [get_embedding_variable(f"v{i}", 4) for i in range(6)]
        found = group_embedding_lookup_sparse(variables, [bags] * 6, ["sum"] * 6)
        loss = tf.add_n([tf.reduce_sum(x) for x in found])
        step = GradientDescentOptimizer(0.1).minimize(loss)
        counts = [variable.total_count() for variable in variables]
        with tf1.Session(config=config) as session:
            session.run(tf1.global_variables_initializer())

            def run(thread):
                for number in range(num_steps):
                    begin = (thread * num_steps + number) * num_keys
                    session.run(step, {keys: np.arange(begin, begin + num_keys)})

            with concurrent.futures.ThreadPoolExecutor(num_threads) as pool:
                list(pool.map(run, range(num_threads)))
            num_rows = [count[0] for count in session.run(counts)]
        assert num_rows == [num_threads * num_steps * num_keys] * 6


@pytest.mark.parametrize("dtype", [tf.float64, tf.float16])
def test_rows_of_ordinary_variables_become_float32(dtype):
    with tf.Graph().as_default():
        rows = np.arange(12).reshape(4, 3) / 4
        variable = tf1.get_variable("x", initializer=tf.constant(rows, dtype))
        ids = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], [1, 3, 2], [3, 2])
        weights = ids.with_values(tf.constant([1.0, 0.5, 2.0]))
        params = [variable, get_embedding_variable("ev", 3)]
        pooled = group_embedding_lookup_sparse(params, [ids] * 2, ["sum"] * 2, [weights, None])[0]
        sequence = group_embedding_lookup_sparse(
            params, [ids] * 2, ["sum"] * 2, [weights, None], is_sequence=True
        )[0]
        single = group_embedding_lookup(params, [[1, 2], [1]])[0]
        gradient = tf.gradients(tf.reduce_sum(pooled), variable)[0]
        assert {x.dtype for x in (pooled, sequence, single)} == {tf.float32}
        assert gradient.dtype == dtype
        with initialized_session(rewrites=False) as session:
            expected = [rows[1] + 0.5 * rows[3], np.zeros(3), 2 * rows[2]]
            np.testing.assert_allclose(session.run(pooled), expected)
            np.testing.assert_allclose(session.run(sequence)[0], [rows[1], 0.5 * rows[3]])
            np.testing.assert_allclose(session.run(single), rows[[1, 2]])
