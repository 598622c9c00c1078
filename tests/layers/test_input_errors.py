# SPDX-License-Identifier: Apache-2.0
"""Wrong inputs: the error's class, and that its message says which."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from sok_compat.runtime.tf_versions import has_keras_2
from tests.support.cases.layer_cases import LayerCase
from tests.support.sessions import initialized_session

InvalidArgument = tf.errors.InvalidArgumentError
KEYS = [1, 2, 3]

# Fed to a layer with slot_num 2, max_nnz 3: (indices, dense_shape), what the message says.
BAD_SPARSE = {
    "rows-no-multiple-of-slot_num": ([[0, 0], [1, 0], [2, 0]], [3, 3], r"3 rows.*slot_num = 2"),
    "unsorted": ([[0, 0], [3, 0], [1, 0]], [4, 3], r"must ascend.*row 1 after row 3"),
    "row-out-of-range": ([[0, 0], [1, 0], [4, 0]], [4, 3], r"row index 4.*4 rows"),
    "negative-row": ([[-1, 0], [1, 0], [2, 0]], [4, 3], r"row index -1"),
    "more-indices-than-keys": ([[0, 0], [0, 1], [1, 0], [1, 1]], [2, 3], r"same length"),
    "rank-3": ([[0, 0, 0], [0, 1, 0], [1, 0, 0]], [2, 2, 2], r"rank 2.*got rank 3"),
    "rank-1": ([[0], [1], [2]], [4], r"rank 2.*got rank 1"),
}


def make_sparse_layer(sok, **kwargs):
    options = dict(combiner="sum", slot_num=2, max_nnz=3, name="layer_name")
    return sok.DistributedEmbedding(
        **{**options, **kwargs}, max_vocabulary_size_per_gpu=10, embedding_vec_size=4
    )


def make_dense_layer(sok, **kwargs):
    options = dict(slot_num=2, nnz_per_slot=3, name="layer_name")
    return sok.All2AllDenseEmbedding(
        **{**options, **kwargs}, max_vocabulary_size_per_gpu=10, embedding_vec_size=4
    )


@pytest.mark.parametrize("indices, shape, message", BAD_SPARSE.values(), ids=BAD_SPARSE)
def test_sparse_tensor_that_does_not_fit(sok, indices, shape, message):
    layer = make_sparse_layer(sok)
    inputs = tf.compat.v1.sparse_placeholder(tf.int64)
    output = layer(inputs)
    num_keys = layer.embedding_variable.num_keys()
    with initialized_session() as session:
        with pytest.raises(InvalidArgument, match=message) as caught:
            session.run(output, {inputs: (indices, KEYS, shape)})
        if "same length" not in message:
            assert "layer_name" in str(caught.value)
        good = ([[0, 0], [0, 1], [3, 0]], KEYS, [4, 3])
        assert session.run(output, {inputs: good}).shape == (2, 2, 4)
        assert session.run(num_keys) == 3


def test_more_keys_than_max_nnz(sok):
    output = make_sparse_layer(sok)(
        tf.SparseTensor([[1, i] for i in range(4)], tf.range(4, dtype=tf.int64), [2, 4])
    )
    message = "layer_name: row 1 .*more than max_nnz = 3"
    with initialized_session() as session, pytest.raises(InvalidArgument, match=message):
        session.run(output)


def test_static_rank_of_a_sparse_tensor(sok):
    cube = tf.SparseTensor([[0, 0, 0]], tf.constant([1], tf.int64), [2, 2, 2])
    with pytest.raises(ValueError, match="must have rank 2.*got rank 3"):
        make_sparse_layer(sok)(cube)


def test_sparse_layer_wants_a_sparse_tensor(sok):
    value = tf.constant([[1, 2], [3, 4]], tf.int64)
    with pytest.raises(TypeError, match="sp_ids must be SparseTensor or RaggedTensor"):
        make_sparse_layer(sok)(value)


NOT_DENSE = {
    "NoneType": lambda: None,
    "dict": lambda: {},
    "list": lambda: [[[1], [2, 3]]],
    "SparseTensor": lambda: tf.sparse.from_dense([[1]]),
    "RaggedTensor": lambda: tf.ragged.constant([[1], [2, 3]]),
}


@pytest.mark.parametrize("is_graph", [True, False], ids=["graph", "eager"])
@pytest.mark.parametrize("name, make", NOT_DENSE.items(), ids=NOT_DENSE)
def test_dense_layer_wants_a_dense_tensor(name, make, is_graph):
    if name == "list" and not has_keras_2:
        pytest.skip("Keras 3 itself refuses the numbers of a list")
    with tf.Graph().as_default() if is_graph else tf.init_scope():
        sok_compat.Init(global_batch_size=4)
        layer = make_dense_layer(sok_compat)
        with pytest.raises(TypeError, match=f"inputs must be a dense tensor of keys, got {name}"):
            layer(make())


@pytest.mark.parametrize("make", [make_sparse_layer, make_dense_layer], ids=["sparse", "dense"])
@pytest.mark.parametrize("made_in, used_in, message", [
    ("graph", "graph", "one graph and used in another"), ("graph", "eager", "a graph .*eager mode"),
    ("eager", "graph", "eager mode .* a graph"),
])  # fmt: skip
def test_layer_of_another_graph(make, made_in, used_in, message):
    def enter(place):
        return tf.Graph().as_default() if place == "graph" else tf.init_scope()

    with enter(made_in):
        sok_compat.Init(global_batch_size=4)
        layer = make(sok_compat)
    keys = np.ones([2, 2, 3], np.int64)
    with (
        enter(used_in),
        pytest.raises(RuntimeError, match=f"table of layer_name was made in {message}"),
    ):
        layer(tf.constant(keys) if make is make_dense_layer else tf.sparse.from_dense(keys[0]))


@pytest.mark.parametrize("case_input", ["sum", "mean", "static", "dynamic"])
@pytest.mark.parametrize("key_dtype, given", [("int64", "uint32"), ("uint32", "int64"),
                                              ("int64", "int16"), ("int64", "float32"),
                                              ("uint32", "int32")])  # fmt: skip
def test_key_dtype(sok, case_input, key_dtype, given):
    case = LayerCase(case_input, True, key_dtype)
    with pytest.raises(ValueError, match=f"keys must be {key_dtype}.*got {given}"):
        case.make_layer()(case.placeholder(given))


@pytest.mark.parametrize("is_static", [True, False], ids=["when-built", "when-run"])
@pytest.mark.parametrize("shape", [[4, 2, 2], [4, 3, 3]])
def test_slots_of_a_dense_batch(sok, shape, is_static):
    layer = make_dense_layer(sok)
    batch = np.zeros(shape, np.int64)
    if is_static:
        with pytest.raises(ValueError, match="batch, slot_num, nnz_per_slot"):
            layer(tf.constant(batch))
        return
    inputs = tf.compat.v1.placeholder(tf.int64, [None, None, None])
    output = layer(inputs)
    with initialized_session() as session, pytest.raises(InvalidArgument, match="[Ss]hape"):
        session.run(output, {inputs: batch})


@pytest.mark.parametrize("case_input", ["sum", "static", "dynamic"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("key_dtype, key", [
    ("int64", -1), ("int64", -(2**63)), ("int64", 48), ("int64", 2**63 - 1), ("uint32", 48),
    ("uint32", 2**32 - 1),
])  # fmt: skip
def test_key_out_of_range_without_hashtable(sok, case_input, training, key_dtype, key):
    case = LayerCase(case_input, False, key_dtype)  # capacity 48
    layer, inputs = case.make_layer(), case.placeholder()
    output = layer(inputs, training=training)
    num_keys = layer.embedding_variable.num_keys()
    batch = case.batch(np.random.default_rng(0), 2, [key])
    with initialized_session() as session:
        with pytest.raises(InvalidArgument, match=f"EmbeddingVariable.*key {key} "):
            session.run(output, {inputs: batch})
        assert session.run(num_keys) == 0
        rng = np.random.default_rng(0)
        session.run(output, {inputs: case.batch(rng, 2, case.keys(rng))})


BAD_ARGUMENTS = {
    "capacity-0": (
        dict(max_vocabulary_size_per_gpu=0),
        "max_vocabulary_size_per_gpu must be an int >= 1",
    ),
    "capacity-float": (dict(max_vocabulary_size_per_gpu=1.5), "max_vocabulary_size_per_gpu"),
    "dim-0": (dict(embedding_vec_size=0), "embedding_vec_size must be an int >= 1"),
    "slot_num-0": (dict(slot_num=0), "slot_num must be an int >= 1"),
    "slot_num-text": (dict(slot_num="2"), "slot_num must be an int"),
    "key_dtype": (dict(key_dtype="int32"), "key_dtype must be int64 or uint32, got int32"),
    "initializer": (dict(embedding_initializer="no_such"), "no_such"),
}
BAD_SPARSE_ARGUMENTS = {
    "max_nnz-0": (dict(max_nnz=0), "max_nnz must be an int >= 1"),
    "max_feature_num-0": (dict(max_feature_num=0), "max_feature_num must be an int >= 1"),
    "max_feature_num-text": (dict(max_feature_num="2"), "max_feature_num must be an int"),
    "max_feature_num-7": (dict(max_feature_num=7), r"max_feature_num must be in \[1, .* = 6\]"),
}


@pytest.mark.parametrize("arguments, message", [*BAD_ARGUMENTS.values(),
                                                *BAD_SPARSE_ARGUMENTS.values()],
                         ids=[*BAD_ARGUMENTS, *BAD_SPARSE_ARGUMENTS])  # fmt: skip
def test_arguments_of_the_sparse_layer(sok, arguments, message):
    good = dict(combiner="sum", max_vocabulary_size_per_gpu=9, embedding_vec_size=4, slot_num=2,
                max_nnz=3)  # fmt: skip
    with pytest.raises(ValueError, match=message):
        sok.DistributedEmbedding(**{**good, **arguments})


@pytest.mark.parametrize(
    "arguments, message",
    [*BAD_ARGUMENTS.values(), (dict(nnz_per_slot=0), "nnz_per_slot must be >=")],
)
def test_arguments_of_the_dense_layer(sok, arguments, message):
    good = dict(max_vocabulary_size_per_gpu=9, embedding_vec_size=4, slot_num=2, nnz_per_slot=3)
    with pytest.raises(ValueError, match=message):
        sok.All2AllDenseEmbedding(**{**good, **arguments})


@pytest.mark.parametrize("given, kept", [(1, 6), (2, 2), (6, 6)])
def test_max_feature_num(sok, given, kept):
    assert make_sparse_layer(sok, max_feature_num=given).max_feature_num == kept


BAD_FLAGS = ["False", None, 2, 1.0, [], np.array([True, False])]


@pytest.mark.parametrize("value", BAD_FLAGS, ids=repr)
def test_flags_are_not_judged_by_their_truth(sok, value):
    for name in ("use_hashtable", "dynamic_input", "trainable"):
        with pytest.raises(ValueError, match=f"{name} must be True or False, got"):
            make_dense_layer(sok, **{name: value})
    if value is not None and (has_keras_2 or not isinstance(value, np.ndarray)):
        layer = make_dense_layer(sok)
        with pytest.raises(ValueError, match="layer_name: training must be True or False, got"):
            layer(tf.zeros([1, 2, 3], tf.int64), training=value)


@pytest.mark.parametrize("num_rows", [2**31, 2**62, 2**63 - 1])
def test_more_rows_than_a_batch_may_have(sok, num_rows):
    """The output has a row for each, also without a key: no memory is asked for."""
    layer = make_sparse_layer(sok, slot_num=1)
    inputs = tf.compat.v1.sparse_placeholder(tf.int64)
    output = layer(inputs)
    batch = (np.zeros([0, 2], np.int64), np.zeros([0], np.int64), [num_rows, 3])
    message = rf"layer_name: a SparseTensor may have {2**31 - 1} rows .*got {num_rows}"
    with initialized_session() as session, pytest.raises(InvalidArgument, match=message):
        session.run(output, {inputs: batch})


@pytest.mark.parametrize("use_hashtable", [True, False])
def test_bags_that_are_refused_insert_no_key(sok, use_hashtable):
    layer = make_sparse_layer(sok, use_hashtable=use_hashtable)
    inputs = tf.compat.v1.sparse_placeholder(tf.int64)
    output, num_keys = layer(inputs), layer.embedding_variable.num_keys()
    with initialized_session() as session:
        for _ in range(20):  # the ops of a step may run in any order that the graph allows
            with pytest.raises(InvalidArgument, match="must ascend"):
                session.run(output, {inputs: ([[1, 0], [0, 0]], [4, 5], [2, 3])})
        assert session.run(num_keys) == 0


BAD_INITIALIZERS = {
    "number": 3,
    "class-of-none": object,
    "no-arguments": lambda: 1.0,
    "none": lambda shape, dtype=None: None,
    "shape": lambda shape, dtype=None: tf.zeros([3, 3, 3], dtype),
    "dtype": lambda shape, dtype=None: tf.fill(shape, "text"),
}


@pytest.mark.parametrize("use_hashtable", [True, False])
@pytest.mark.parametrize("initializer", BAD_INITIALIZERS.values(), ids=BAD_INITIALIZERS)
def test_initializer_that_does_not_fit(sok, initializer, use_hashtable):
    with pytest.raises(ValueError, match="embedding_initializer"):
        make_dense_layer(sok, embedding_initializer=initializer, use_hashtable=use_hashtable)
