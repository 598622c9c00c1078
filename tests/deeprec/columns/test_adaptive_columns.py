# SPDX-License-Identifier: Apache-2.0
"""Adaptive columns read ids where masks say, and new keys start as the ordinary rows."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.deeprec.columns import feature_columns as fc
from sok_compat.deeprec.columns.adaptive_columns import (
    categorical_column_with_adaptive_embedding as adaptive,
)
from sok_compat.deeprec.columns.input_layers import input_layer
from sok_compat.deeprec.optimizer_rules.train_optimizers import (
    AdagradOptimizer,
    GradientDescentOptimizer,
)
from sok_compat.deeprec.variables.embedding_variable import EMBEDDING_VARIABLES
from sok_compat.deeprec.variables.options import CounterFilter, EmbeddingVariableOption
from tests.support.deeprec.adaptive_model import AdaptiveModel
from tests.support.processes.subprocess_python import run_python
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
of_tensorflow = tf1.feature_column
DIM, BUCKETS, RATE = 3, 5, 0.25
SEEDED = tf1.random_uniform_initializer(-1.0, 1.0, seed=3)
ONE_EACH = [
    ([["a"], ["b"], ["c"], ["d"], ["a"]], [0, 1, 0, 0, 0]),  # d shares a bucket or not
    ([["a"], ["b"], ["c"], ["d"], ["e"]], [1, 0, 1, 0, 1]),
    ([["a"], ["b"], ["f"], ["c"], ["a"]], [1, 1, 1, 0, 0]),
    ([["e"], ["b"], ["f"], ["c"], ["a"]], [0] * 5),
]
SEVERAL = [
    ([["a", "b", "a"], [], ["c"], ["d", "b"], []], [0, 0, 1, 0, 1, 1]),
    ([[], ["a", "b", "a"], ["c"], ["e", "f"], ["g"]], [1, 1, 1, 0, 0, 1, 1]),
    ([["g", "f"], ["h"], [], [], ["a", "c", "d"]], [1, 0, 0, 1, 0, 1]),
    ([[], [], [], [], []], []),
    ([["a", "b", "c", "d"], ["e", "f", "g", "h"], [], [], []], [1] * 8),
]


class Layer:
    """An input layer of one adaptive column, fed with ids and a mask."""

    def __init__(self, dtype, combiner="mean", partition_num=None, scope_parts=None, **settings):
        self.dtype = tf.as_dtype(dtype)
        self.is_dense = settings.pop("is_dense", False)
        placeholder = tf1.placeholder if self.is_dense else tf1.sparse_placeholder
        self.ids = placeholder(self.dtype, [None, 4 if self.is_dense else None])
        self.mask = tf1.placeholder(tf.int32, [None])
        option = settings.pop("option", None)
        column = adaptive("x", BUCKETS, self.dtype, partition_num, option)
        embedded = fc.embedding_column(column, DIM, combiner, SEEDED, **settings)
        partitioner = scope_parts and tf1.fixed_size_partitioner(scope_parts)
        with tf1.variable_scope("model", partitioner=partitioner):
            self.output = input_layer(
                {"x": self.ids},
                embedded,
                adaptive_mask_tensors={"x": self.mask, "another": tf.constant([7])},
            )
        parts = [v for v in tf1.global_variables() if "hash_weights" in v.name]
        self.ordinary = tf.concat(parts, 0)
        exported = [table.export()[:2] for table in tf1.get_collection(EMBEDDING_VARIABLES)]
        self.exported = [tf.concat(each, 0) for each in zip(*exported)]

    def value(self, word):
        """An id of the layer's dtype, for a word of one letter."""
        return word if self.dtype == tf.string else ord(word)

    def fed(self, bags, mask):
        indices = [(i, j) for i, bag in enumerate(bags) for j in range(len(bag))]
        values = [self.value(word) for bag in bags for word in bag]
        kind = object if self.dtype == tf.string else self.dtype.as_numpy_dtype
        if self.is_dense:
            ids = np.full([len(bags), 4], "" if self.dtype == tf.string else -1, kind)
            for place, value in zip(indices, values):
                ids[place] = value
            return {self.ids: ids, self.mask: mask}
        ids = tf1.SparseTensorValue(
            np.array(indices, np.int64).reshape(-1, 2), np.array(values, kind), [len(bags), 4]
        )
        return {self.ids: ids, self.mask: mask}

    def model(self, session, combiner, optimizer):
        return AdaptiveModel(session.run(self.ordinary), self.dtype, combiner, optimizer, RATE)


def check_tables(session, layer, model):
    """The layer's variables hold what the model's do."""
    np.testing.assert_allclose(session.run(layer.ordinary), model.ordinary, rtol=1e-4, atol=1e-5)
    keys, rows = session.run(layer.exported)
    assert sorted(keys) == sorted(model.rows)
    for key, row in zip(keys, rows):
        np.testing.assert_allclose(row, model.rows[key], rtol=1e-4, atol=1e-5, err_msg=str(key))


@pytest.mark.parametrize("steps, dtype, combiner, optimizer, parts, is_linear", [
    (ONE_EACH, "string", "mean", GradientDescentOptimizer, {}, True),
    (ONE_EACH, "int64", "sum", AdagradOptimizer, {}, True),
    (SEVERAL, "string", "mean", AdagradOptimizer, {}, False),
    (SEVERAL, "string", "mean", AdagradOptimizer, {"is_dense": True}, True),
    (SEVERAL, "int64", "sum", GradientDescentOptimizer, {"is_dense": True}, False),
    (SEVERAL, "string", "sqrtn", GradientDescentOptimizer, {"partition_num": 2}, True),
    (SEVERAL, "int64", "sum", GradientDescentOptimizer, {"scope_parts": 2}, False),
    (SEVERAL, "int32", "mean", AdagradOptimizer, {"partition_num": 3, "scope_parts": 2}, True),
])  # fmt: skip
def test_training_follows_the_masks(graph, steps, dtype, combiner, optimizer, parts, is_linear):
    """A linear loss computes gradients before the forward pass has read a row."""
    layer = Layer(dtype, combiner, **parts)
    loss = tf.reduce_sum(layer.output if is_linear else layer.output**2)
    train = optimizer(RATE).minimize(loss)
    with initialized_session() as session:
        model = layer.model(session, combiner, optimizer.__name__)
        for _ in range(2):
            for bags, mask in steps:
                fed = layer.fed(bags, mask)
                values = [[layer.value(word) for word in bag] for bag in bags]
                expected = model.read(values, mask)
                np.testing.assert_allclose(
                    session.run(layer.output, fed), expected, rtol=1e-4, atol=1e-5
                )
                session.run(train, fed)
                model.train(values, mask, np.ones_like(expected) if is_linear else 2 * expected)
                check_tables(session, layer, model)


def test_reads_give_no_key_a_row(graph):
    layer = Layer("string")
    tf.gradients(layer.output, tf1.trainable_variables())
    with initialized_session() as session:
        fed = layer.fed([["a"], ["b"]], [1, 1])
        same = layer.fed([["a"], ["b"]], [0, 0])
        np.testing.assert_array_equal(
            session.run(layer.output, fed), session.run(layer.output, same)
        )
        assert not session.run(layer.exported[0]).size


@pytest.mark.parametrize("is_dense", [False, True])
def test_a_mask_of_samples_is_that_of_their_ids(graph, is_dense):
    layer = Layer("int64", is_dense=is_dense)
    train = GradientDescentOptimizer(RATE).minimize(tf.reduce_sum(layer.output))
    with initialized_session() as session:
        session.run(train, layer.fed([["a", "b"], [], ["c", "d"]], [1, 1, 0]))
        assert set(session.run(layer.exported[0])) == {ord("a"), ord("b")}
        session.run(train, layer.fed([["e", "f"], [], ["g"]], [0, 1, 1]))  # as many ids as samples
        assert set(session.run(layer.exported[0])) == {ord(x) for x in "abfg"}


@pytest.mark.parametrize("is_dense, mask, message", [
    (False, [1, 1],
     r"for each id, or for each sample; entries, ids, samples:.* \[2\] \[4\] \[3\]"),
    (False, [1, 1, 0, 0, 1], r"\[5\] \[4\] \[3\]"),
    (False, [1, 2, 0, 0], r"partitions\[1\] = 2 is not in \[0, 2\)"),
    (True, [1, 1], "for each id, or for each sample; it has 2 entries for 4 ids of 3 samples"),
    (True, [1, 2, 0, 0], "must have entries 0 and 1, got 2"),
])  # fmt: skip
def test_a_wrong_mask_fails_the_step(graph, is_dense, mask, message):
    layer = Layer("string", is_dense=is_dense)
    with (
        initialized_session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match=message),
    ):
        session.run(layer.output, layer.fed([["a", "b"], [], ["c", "d"]], mask))


@pytest.mark.parametrize("is_dense", [False, True])
def test_ids_below_zero(graph, is_dense):
    """As in a hashed column where the mask is 0, and as in one of an embedding variable, else."""
    values = tf.constant([-5, 3, -5], tf.int64)
    features = {"x": tf.SparseTensor([[0, 0], [0, 1], [1, 0]], values, [2, 2])}
    if is_dense:
        features = {"x": tf.constant([[-5, 3], [-5, -1]], tf.int64)}
    embedded = fc.embedding_column(adaptive("x", BUCKETS, tf.int64), DIM, "sum", SEEDED)
    output = input_layer(features, embedded, adaptive_mask_tensors={"x": tf.constant([1, 1, 0])})
    ordinary = next(v for v in tf1.global_variables() if "hash_weights" in v.name)
    buckets = tf.strings.to_hash_bucket_fast(["3", "-5"], BUCKETS)
    expected = tf.gather(ordinary, buckets)
    with initialized_session() as session:
        np.testing.assert_array_equal(*session.run([output, expected]))


@pytest.mark.parametrize("is_dense", [False, True])
@pytest.mark.parametrize("make", [adaptive, fc.categorical_column_with_embedding])
def test_ids_too_wide_for_an_int32_variable_fail_the_step(graph, make, is_dense):
    """Not the next save: then training could go on without one."""
    dense = tf.constant([[2**40, 7], [2**40, 8]], tf.int64)
    features = {"x": dense if is_dense else tf.sparse.from_dense(dense)}
    column = make("x", BUCKETS, tf.int32) if make is adaptive else make("x", tf.int32)
    masks = {"x": tf1.placeholder_with_default([1, 1, 0, 1], [4])}
    output = input_layer(features, fc.embedding_column(column, DIM), adaptive_mask_tensors=masks)
    with initialized_session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="fit in int32.*1099511627776"):
            session.run(output)
        if make is adaptive:  # others are of the ordinary variable
            session.run(output, {masks["x"]: [0, 1, 0, 1]})


def test_counts_of_numpy():
    column = adaptive("x", np.array(3), partition_num=np.int64(2))
    assert column == adaptive("x", 3, partition_num=2)
    assert hash(column) == hash(adaptive("x", 3, partition_num=2))


@pytest.mark.parametrize("combiner", ["mean", "sum", "sqrtn"])
def test_indices_in_any_order(graph, combiner):
    """As TensorFlow's embedding columns take them."""
    places = np.array([[2, 0], [0, 1], [2, 1], [0, 0]], np.int64)
    words, mask = np.array(["a", "b", "c", "d"]), np.array([1, 0, 0, 1])
    layer = Layer("string", combiner)
    train = GradientDescentOptimizer(RATE).minimize(tf.reduce_sum(layer.output**2))
    with initialized_session() as session:
        model = layer.model(session, combiner, "GradientDescentOptimizer")
        fed = {layer.ids: (places, words, [4, 2]), layer.mask: mask}
        for _ in range(2):
            bags, of_bags = [["d", "b"], [], ["a", "c"], []], [1, 0, 1, 0]
            expected = model.read(bags, of_bags)
            np.testing.assert_allclose(session.run(layer.output, fed), expected, rtol=1e-5)
            session.run(train, fed)
            model.train(bags, of_bags, 2 * expected)


def test_ops_of_many_columns(graph):
    """One lookup of all columns."""
    names = [f"x{i}" for i in range(6)]
    columns = [fc.embedding_column(adaptive(name, BUCKETS), DIM, "sum") for name in names]
    features = {name: tf1.placeholder(tf.string, [None]) for name in names}
    masks = {name: tf.ones([4], tf.int32) for name in names}
    output = input_layer(features, columns, adaptive_mask_tensors=masks)
    GradientDescentOptimizer(RATE).minimize(tf.reduce_sum(output**2))
    types = [op.type for op in graph.get_operations()]
    for each in ("SokColumnKeys", "SokPoolRows", "SokPoolReceivedRows", "SokFindRows"):
        assert types.count(each) == 1, each


def test_max_norm_clips_rows(graph):
    layer = Layer("string", "sum", max_norm=0.1)
    with initialized_session() as session:
        output = session.run(layer.output, layer.fed([["a", "a"], ["b"]], [0, 1, 1]))
    np.testing.assert_allclose(np.linalg.norm(output, axis=1), [0.2, 0.1], rtol=1e-5)


def test_a_filter_decides_when_a_key_gets_the_row(graph):
    layer = Layer("string", option=EmbeddingVariableOption(filter_option=CounterFilter(2)))
    optimizer = GradientDescentOptimizer(RATE)
    train = optimizer.minimize(tf.reduce_sum(layer.output), tf1.train.get_or_create_global_step())
    with initialized_session() as session:
        fed = layer.fed([["a"]], [1])
        model = layer.model(session, "mean", optimizer.__class__.__name__)
        np.testing.assert_array_equal(session.run(layer.output, fed), np.zeros([1, DIM]))
        session.run(train, fed)
        assert not session.run(layer.exported[0]).size
        session.run(train, layer.fed([["a"]], [0]))
        model.train([["a"]], [0], np.ones([1, DIM]))
        session.run(train, fed)
        start = model.read([["a"]], [1])
        np.testing.assert_allclose(session.run(layer.output, fed), start - RATE, rtol=1e-5)
        session.run(train, fed)
        np.testing.assert_allclose(session.run(layer.output, fed), start - 2 * RATE, rtol=1e-5)


def test_a_checkpoint_has_both_variables(tmp_path):
    path = str(tmp_path / "model")
    fed = [["a", "b"], ["c"]], [1, 0, 1]
    with tf.Graph().as_default():
        layer = Layer("string", partition_num=2)
        train = AdagradOptimizer(RATE).minimize(tf.reduce_sum(layer.output**2))
        saver = tf1.train.Saver()
        with initialized_session() as session:
            session.run(train, layer.fed(*fed))
            saver.save(session, path)
            wanted = session.run(layer.output, layer.fed(*fed))
            session.run(train, layer.fed(*fed))
            after = session.run(layer.output, layer.fed(*fed))
    names = {name for name, _ in tf.train.list_variables(path)}
    scope = "model/input_layer/x_embedding"
    assert {f"{scope}/hash_weights", f"{scope}/ev_weights/part_1-keys"} <= names
    with tf.Graph().as_default():
        layer = Layer("string", partition_num=2)
        train = AdagradOptimizer(RATE).minimize(tf.reduce_sum(layer.output**2))
        saver = tf1.train.Saver()
        with tf1.Session() as session:
            saver.restore(session, path)
            np.testing.assert_array_equal(session.run(layer.output, layer.fed(*fed)), wanted)
            session.run(train, layer.fed(*fed))
            np.testing.assert_allclose(session.run(layer.output, layer.fed(*fed)), after, rtol=1e-6)


def weighted():
    column = of_tensorflow.weighted_categorical_column(adaptive("x", 3), "w")
    fc.embedding_column(column, 2)


def from_a_checkpoint():
    fc.embedding_column(adaptive("x", 3), 2, ckpt_to_load_from="c", tensor_name_in_ckpt="t")


def in_a_group():
    with fc.group_embedding_column_scope("g"):
        fc.embedding_column(adaptive("x", 3), 2)


@pytest.mark.parametrize("call, error, message", [
    (lambda: adaptive("x", 0), ValueError, "'x': hash_bucket_size must be an int >= 1, got 0"),
    (lambda: adaptive("x", 3, tf.float32), ValueError, "'x': dtype must be string, int64 or int32"),
    (lambda: adaptive("x", True), ValueError, "hash_bucket_size must be an int >= 1, got True"),
    (lambda: adaptive("x", 3, partition_num=0), ValueError, "partition_num must be an int >= 1"),
    (weighted, ValueError, "takes no weights, got 'x_weighted_by_w': weight a categorical_column"),
    (in_a_group, TypeError, "'x' of .*_adaptive_embedding cannot be in the group '.*_g': make its"),
    (lambda: input_layer({"x": [["a"]]}, fc.embedding_column(adaptive("x", 3), 2)), ValueError,
     "'x' of .* needs a mask: call .*adaptive_mask_tensors={'x': mask}.*, with an int32 mask"),
    (lambda: input_layer({"x": [["a"]]}, of_tensorflow.indicator_column(adaptive("x", 3))),
     NotImplementedError, "'x' of .* works in an embedding_column only: elsewhere, use"),
    (lambda: input_layer({"x": [[1]]}, fc.embedding_column(adaptive("x", 3), 2),
                            adaptive_mask_tensors={"x": [1]}), ValueError, "must be compatible"),
    (from_a_checkpoint, NotImplementedError, "cannot start from the checkpoint 'c'"),
])  # fmt: skip
def test_what_is_refused(graph, call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.thorough
def test_as_scripts_write_it():
    """One id a sample, and dense columns beside it; FTRL with a linear loss."""
    assert run_python("""
        import sok_compat.deeprec as tf
        column = tf.feature_column.categorical_column_with_adaptive_embedding(
            "id", hash_bucket_size=100, dtype=tf.int64, ev_option=tf.EmbeddingVariableOption())
        columns = [
            tf.feature_column.embedding_column(column, 3, initializer=tf.ones_initializer()),
            tf.feature_column.numeric_column("n")]
        tensors = {}
        layer = tf.feature_column.input_layer(
            {"id": tf.constant([[1], [2], [3]], tf.int64), "n": tf.zeros([3, 1])}, columns,
            cols_to_output_tensors=tensors, adaptive_mask_tensors={"id": tf.constant([1, 0, 1])})
        optimizer = tf.train.FtrlOptimizer(0.1, l1_regularization_strength=2.0)
        step = tf.train.get_or_create_global_step()
        train = optimizer.minimize(tf.reduce_sum(layer), step)
        with tf.train.MonitoredTrainingSession() as session:
            before = session.run(tensors[columns[0]])
            session.run(train)
            after = session.run(tensors[columns[0]])
        print(layer.shape, before.ravel().tolist() == [1.0] * 9, after.max() < 1)
        print((after[0] == after[2]).all(), (after[0] > after[1]).all())  # l1 by row, by element
        print(*sorted(v.op.name for v in tf.trainable_variables()))
        print(tf.nn.adaptive_embedding_lookup_sparse.__name__)
    """).splitlines() == [
        "(3, 4) True True",
        "True True",
        "input_layer/id_embedding/ev_weights input_layer/id_embedding/hash_weights",
        "adaptive_embedding_lookup_sparse",
    ]
