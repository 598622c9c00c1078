# SPDX-License-Identifier: Apache-2.0
"""Columns over multihash variables give what TensorFlow's own give over the same rows."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.deeprec.columns import feature_columns as fc
from sok_compat.deeprec.columns.input_layers import input_layer
from sok_compat.deeprec.columns.linear_models import linear_model
from sok_compat.deeprec.columns.multihash_columns import (
    categorical_column_with_multihash as multihash,
)
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
of_tensorflow = tf1.feature_column
DIMS = [[4, 2], [5, 3]]  # concatenated: 5 floats
IDS = np.array([[0, 15, -1], [6, 6, 2], [-1, -1, -1]])


def features(ids_of_a=IDS):
    """'a' and its weights 'w' sparse, 'b' dense."""
    places = np.argwhere(ids_of_a >= 0)
    values = ids_of_a[ids_of_a >= 0]
    return {
        "a": tf.SparseTensor(places, tf.constant(values, tf.int64), IDS.shape),
        "b": tf.constant(IDS[::-1].copy(), tf.int64),
        "w": tf.SparseTensor(places, tf.constant(values % 4 + 1, tf.float32), IDS.shape),
    }


def run_layer(make_columns, ids_of_a):
    """({name: variable of a multihash variable}, the layer's output) in a graph of its own."""
    with tf.Graph().as_default():
        output = input_layer(features(ids_of_a), make_columns())
        parts = [v for v in tf1.global_variables() if "embedding_weights/" in v.op.name]
        with initialized_session() as session:
            return session.run([{v.op.name: v for v in parts}, output])


CASES = {
    "alone": lambda column: [fc.embedding_column(column("a"), 5, use_safe_embedding_lookup=False)],
    "weighted": lambda column: [
        fc.embedding_column(of_tensorflow.weighted_categorical_column(column("a"), "w"), 5, "sqrtn")
    ],
    "shared": lambda column: fc.shared_embedding_columns([column("a"), column("b")], 5, "sum"),
    "in a group": lambda column: _grouped(
        lambda: [
            fc.embedding_column(column("a"), 5),
            fc.embedding_column(fc.categorical_column_with_embedding("b", tf.int64), 2),
        ]
    ),
}


def _grouped(make):
    with fc.group_embedding_column_scope("group"):
        return make()


@pytest.mark.parametrize("num_parts", [None, 2])
@pytest.mark.parametrize("case", CASES)
def test_gives_what_a_plain_column_gives(case, num_parts):
    ids = np.where(IDS < 0, 3, IDS) if case == "alone" else IDS  # a lookup without empty rows
    make = CASES[case]
    variables, found = run_layer(
        lambda: make(lambda key: multihash(key, DIMS, partition_num=num_parts)), ids
    )
    assert len(variables) == 2 * (num_parts or 1)
    quotients, remainders = (
        np.concatenate([variables[name] for name in sorted(variables) if half in name])
        for half in ("quotients", "remainders")
    )
    numbers = np.arange(16)
    rows = np.concatenate([quotients[numbers // 4], remainders[numbers % 5]], 1)
    plain = tf1.constant_initializer(rows)

    def columns():
        made = make(lambda key: of_tensorflow.categorical_column_with_identity(key, 16))
        return [c if c.dimension != 5 else _starting_from(c, plain) for c in made]

    _, expected = run_layer(columns, ids)
    width = 5 if case == "in a group" else None  # without the embedding variable
    np.testing.assert_allclose(found[:, :width], expected[:, :width], rtol=1e-5)
    assert found.shape == expected.shape and np.any(found)


@pytest.mark.parametrize("operation, sizes, width", [("concat", (2, 3), 5), ("add", (3, 3), 3)])
@pytest.mark.parametrize("case", ["alone", "weighted", "shared"])
def test_rows_of_each_variable_and_their_sizes_apart(case, operation, sizes, width):
    """dims=(rows, rows) with dimension=(floats, floats) are the pairs of both."""
    pairs = list(zip((4, 5), sizes))

    def columns(dims, dimension):
        column = multihash("a", dims, operation=operation)
        first = tf1.random_uniform_initializer(seed=3)
        if case == "weighted":
            column = of_tensorflow.weighted_categorical_column(column, "w")
        if case != "shared":
            return [fc.embedding_column(column, dimension, initializer=first)]
        columns = [column, multihash("b", dims, operation=operation)]
        return fc.shared_embedding_columns(columns, dimension, initializer=first)

    found, output = run_layer(lambda: columns((4, 5), sizes), IDS)
    variables, expected = run_layer(lambda: columns(pairs, width), IDS)
    assert {name: v.shape for name, v in found.items()} == {
        name: v.shape for name, v in variables.items()
    }
    assert output.any()
    np.testing.assert_array_equal(output, expected)


@pytest.mark.parametrize("dims, dimension", [((4, 5), 2), (DIMS, (2, 3))])
def test_sizes_are_given_once(dims, dimension):
    with pytest.raises(ValueError, match="'a' .*got dims .* and the dimension"):
        fc.embedding_column(multihash("a", dims), dimension)


def _starting_from(column, initializer):
    made = column._replace(initializer=initializer)
    if hasattr(column, "group_name"):
        made.group_name = column.group_name
    return made


def test_names_and_training(graph):
    column, found = fc.embedding_column(multihash("a", DIMS), 5, "sum"), {}
    output = input_layer(features(), [column], cols_to_vars=found)
    names = [
        f"input_layer/a_embedding/embedding_weights/{half}" for half in ("quotients", "remainders")
    ]
    assert [v.op.name for v in tf1.trainable_variables()] == names
    assert [v.op.name for v in found[column]] == names
    step = tf1.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(output))
    variables = tf1.trainable_variables()
    with initialized_session() as session:
        before = session.run(variables)
        session.run(step)
        moved = [a - b for a, b in zip(before, session.run(variables))]
    np.testing.assert_allclose(moved[0][:, 0], [2, 2, 0, 1], atol=1e-5)  # quotients by 4
    np.testing.assert_allclose(moved[1][:, 0], [2, 2, 1, 0, 0], atol=1e-5)  # remainders by 5


def test_a_linear_model(graph):
    output = linear_model(features(), [multihash("a", [[4, 1], [4, 1]], operation="add")])
    step = tf1.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(output))
    with initialized_session() as session:
        assert not np.any(session.run(output))
        session.run(step)
        (bias,) = session.run([v for v in tf1.trainable_variables() if "bias" in v.op.name])
        assert np.all(session.run(output)[:2] < bias)


@pytest.mark.parametrize("call, message", [
    (lambda: multihash("a", DIMS, dtype=tf.string), "dtype must be int64 or int32, got string"),
    (lambda: multihash("a", DIMS, partition_num=0), "partition_num must be an int >= 1, got 0"),
    (lambda: multihash("a", DIMS, operation="add"), "the column 'a': dims must be"),
    (lambda: multihash("a", DIMS, "X"), "the column 'a': the complementary_strategy must be 'Q-R'"),
    (lambda: input_layer(features(), [fc.embedding_column(multihash("a", DIMS), 4)]),
     "'a' of categorical_column_with_multihash has rows of 5 floats, .* has the dimension 4"),
    (lambda: fc.shared_embedding_columns([multihash("a", DIMS), multihash("b", DIMS[::-1])], 5),
     "the same arguments except the key, got"),
])  # fmt: skip
def test_what_is_refused(graph, call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_it_has_no_number_of_buckets(graph):
    column = of_tensorflow.indicator_column(multihash("a", DIMS))
    with pytest.raises(NotImplementedError, match="of categorical_column_with_multihash has no"):
        input_layer(features(), [column])
