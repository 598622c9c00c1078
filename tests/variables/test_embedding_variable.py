# SPDX-License-Identifier: Apache-2.0
"""`EmbeddingVariable` as a variable: names, attributes, collections, value, gradients."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat as sok
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from sok_compat.runtime.tf_versions import variable_of
from sok_compat.sparse_operation_kit.core import EmbeddingVariable
from sok_compat.tables.rows.shown_rows import showing_all_rows
from tests.support.bags import sparse_tensor
from tests.support.cases.layer_cases import ALL_CASES, LayerCase
from tests.support.cases.optimizer_cases import EACH_ON_SOME_KIND
from tests.support.sessions import initialized_session

Keys = tf.compat.v1.GraphKeys
CASE = LayerCase("dynamic", True, "int64", dim=3)


def test_names(sok):
    def name_of(layer):
        return layer.embedding_variable.m_var_name

    first, second = CASE.make_layer(), CASE.make_layer(name="a_layer")
    with tf.name_scope("outer"), tf.name_scope("inner"):
        third, fourth = CASE.make_layer(), CASE.make_layer()
    assert [name_of(layer) for layer in (first, second, third, fourth)] == [
        "EmbeddingVariable",
        "EmbeddingVariable_1",
        "outer/inner/EmbeddingVariable",
        "outer/inner/EmbeddingVariable_1",
    ]
    assert third.embedding_variable.name == "outer/inner/EmbeddingVariable:0"
    assert EmbeddingVariable([4, 2], 0, name="mine").m_var_name == "mine"


def test_attributes(sok):
    def initializer(shape, dtype=None):
        return tf.ones(shape, dtype)

    variable = EmbeddingVariable(
        [7, 3], 0, initializer, trainable=False, use_hashtable=False, key_dtype="uint32"
    )
    assert variable.shape.as_list() == variable.m_shape_per_gpu == [7, 3]
    assert variable.dtype == variable.m_dtype == tf.float32
    assert variable.m_key_dtype == tf.uint32
    assert variable.m_initializer is initializer
    assert variable.m_local_replica_id == 0
    assert (variable.m_use_hashtable, variable.m_trainable, variable.trainable) == (
        (False, False, False)
    )
    assert variable.m_unique_id.startswith(variable.m_var_name + "_")
    assert variable.m_handle is variable.emb_handle
    assert variable.tf_handle.dtype == variable.emb_handle.dtype == tf.resource
    assert isinstance(variable.initializer, tf.Operation)
    assert isinstance(variable, tf.Variable)


def test_attributes_of_a_layers_variable(sok):
    layer = CASE.make_layer()
    variable = layer.embedding_variable
    assert isinstance(variable, EmbeddingVariable)
    assert layer.var is variable
    assert variable.embedding_layer is layer.emb_layer
    assert variable.shape.as_list() == [48, 3]
    assert variable.m_key_dtype == tf.int64
    with pytest.raises(ValueError, match="already has an embedding layer"):
        variable.set_embedding_layer(layer.emb_layer)
    with pytest.raises(ValueError, match="no embedding layer yet"):
        _ = EmbeddingVariable([4, 2], 0).embedding_layer


@pytest.mark.parametrize("shape", [(4, 2), [4], [4, 2, 1], None, [0, 2], [4, -1], [4, 1.5],
                                   [None, 3], ["x", 3]])  # fmt: skip
def test_shape_must_be_a_list_of_two(sok, shape):
    with pytest.raises(ValueError, match="shape .*must be"):
        EmbeddingVariable(shape, 0)


@pytest.mark.parametrize("options, message", [
    (dict(dtype=tf.float64), "must be one of float32"),
    (dict(key_dtype="int32"), "key_dtype must be int64 or uint32"),
])  # fmt: skip
def test_dtypes(sok, options, message):
    with pytest.raises(ValueError, match=message):
        EmbeddingVariable([4, 2], 0, **options)


@pytest.mark.parametrize("trainable", [True, False])
def test_collections(sok, trainable):
    variable = CASE.make_layer(trainable=trainable).embedding_variable
    plain = tf.compat.v1.Variable(1.0)

    def is_in(collection):
        return any(v is variable for v in tf.compat.v1.get_collection(collection))

    assert is_in(Keys.GLOBAL_VARIABLES)
    assert is_in(Keys.TRAINABLE_VARIABLES) == trainable
    assert sum(v is variable for v in tf.compat.v1.global_variables()) == 1
    assert any(v is plain for v in tf.compat.v1.trainable_variables())


def test_layer_trains_its_variable(sok):
    layer = CASE.make_layer()
    trained = [variable_of(each) for each in layer.trainable_variables]
    assert [each is layer.embedding_variable for each in trained] == [True]


def test_layers_leave_the_names_of_others_alone(sok):
    CASE.make_layer()
    assert keras.layers.Layer().name == "layer"


@pytest.mark.parametrize("container", [list, tuple])
def test_split(sok, container):
    tables = [EmbeddingVariable([4, 2], 0) for _ in range(2)]
    others = [tf.compat.v1.Variable(1.0, use_resource=resource) for resource in (True, False)]
    mixed = container([others[0], tables[1], others[1], tables[0]])
    split = sok.split_embedding_variable_from_others(mixed)
    assert [type(part) for part in split] == [list, list]
    assert [id(v) for v in split[0]] == [id(tables[1]), id(tables[0])]
    assert [id(v) for v in split[1]] == [id(v) for v in others]


@pytest.mark.parametrize("variables", [None, "v", {}, 3, iter([])])
def test_split_wants_a_list(sok, variables):
    with pytest.raises(ValueError, match="list or tuple"):
        sok.split_embedding_variable_from_others(variables)


NOT_IMPLEMENTED = {
    "load": lambda v: v.load(0, None),
    "assign": lambda v: v.assign(0),
    "assign_add": lambda v: v.assign_add(0),
    "scatter_max": lambda v: v.scatter_max(None),
    "scatter_min": lambda v: v.scatter_min(None),
    "scatter_mul": lambda v: v.scatter_mul(None),
    "scatter_div": lambda v: v.scatter_div(None),
    "batch_scatter_update": lambda v: v.batch_scatter_update(None),
    "scatter_nd_add": lambda v: v.scatter_nd_add(None, None),
    "scatter_nd_sub": lambda v: v.scatter_nd_sub(None, None),
    "scatter_nd_update": lambda v: v.scatter_nd_update(None, None),
    "sparse_read": lambda v: v.sparse_read([0]),
    "gather_nd": lambda v: v.gather_nd([0]),
    "count_up_to": lambda v: v.count_up_to(1),
    "from_proto": lambda v: v.from_proto(None),
    "int": int,
    "__iadd__": lambda v: v.__iadd__(1),
    "__isub__": lambda v: v.__isub__(1),
    "__imul__": lambda v: v.__imul__(1),
    "__itruediv__": lambda v: v.__itruediv__(1),
}


@pytest.mark.parametrize("use", NOT_IMPLEMENTED.values(), ids=NOT_IMPLEMENTED)
def test_methods_that_make_no_sense_for_a_table(sok, use):
    with pytest.raises(NotImplementedError, match="EmbeddingVariable"):
        use(EmbeddingVariable([4, 2], 0))


@pytest.mark.parametrize("read", [tf.gather, tf.nn.embedding_lookup])
def test_rows_are_not_read_by_number(sok, read):
    with pytest.raises(NotImplementedError, match="EmbeddingVariable.*with the layer"):
        read(EmbeddingVariable([4, 2], 0), [1])


@pytest.mark.parametrize("read", [
    lambda v: v.value(), lambda v: v.read_value(), tf.convert_to_tensor, lambda v: v + 0.0,
    tf.identity,
], ids=["value", "read_value", "convert", "add", "identity"])  # fmt: skip
def test_value_is_the_rows_in_order_of_arrival(sok, read):
    layer = LayerCase("dynamic", True, "int64", 3).make_layer(capacity=5)
    lookup = layer(tf.constant([8, 2, 8, 5], tf.int64))
    value = read(layer.embedding_variable)
    assert value.shape.as_list() == [5, 3]
    with initialized_session() as session:
        assert not session.run(value).any()
        rows = session.run(lookup)
        np.testing.assert_array_equal(session.run(value)[:3], rows[[0, 1, 3]])
        assert not session.run(value)[3:].any()


@pytest.mark.parametrize("use_hashtable", [True, False], ids=["hash", "direct"])
def test_initialized_value(sok, use_hashtable):
    """Makes the table where it is not there yet, also for an initial value that is made of it."""
    layer = LayerCase("dynamic", use_hashtable, "int64", 3).make_layer(
        capacity=4, embedding_initializer="ones"
    )
    table, lookup = layer.embedding_variable, layer(tf.constant([1], tf.int64))
    value = table.initialized_value()
    assert value.shape.as_list() == [4, 3]
    copies = [tf.Variable(value), tf.Variable(2.0 * table.value())]
    first = 0.0 if use_hashtable else 1.0
    for read in (value, *copies):
        with tf.compat.v1.Session() as session:
            if read is not value:
                session.run(read.initializer)
            scale = 2.0 if read is copies[1] else 1.0
            assert (session.run(read) == scale * first).all()
    with initialized_session() as session:
        session.run(lookup)  # in a hash table, row 0 is that of key 1 then
        with showing_all_rows(table):
            session.run(table.scatter_sub(tf.IndexedSlices(tf.ones([1, 3]), [0])))
        before = session.run(table.value())
        np.testing.assert_array_equal(session.run(value), before)
        session.run(lookup)
        np.testing.assert_array_equal(*session.run([value, table.value()]))


@pytest.mark.parametrize("case", ALL_CASES, ids=str)
def test_gradient_is_slices_of_distinct_rows(sok, case):
    layer, inputs = case.make_layer(), case.placeholder()
    variable = layer.embedding_variable
    (gradient,) = tf.gradients(tf.reduce_sum(layer(inputs) ** 2), [variable])
    assert isinstance(gradient, tf.IndexedSlices)
    rng = np.random.default_rng(2)
    batch = case.batch(rng, 8, case.keys(rng))
    keys = batch.values if case.is_sparse else batch
    with initialized_session() as session:
        slices = session.run(gradient, {inputs: batch})
        assert slices.values.shape == (len(np.unique(keys)), case.dim)
        assert slices.indices.dtype == np.int64
        assert len(set(slices.indices)) == len(slices.indices)
        assert slices.dense_shape.tolist() == [48, case.dim]


@pytest.mark.parametrize("optimizer, use_hashtable", EACH_ON_SOME_KIND, ids=str)
def test_regularisation_of_all_rows_beside_lookups(sok, use_hashtable, optimizer):
    """L2 on value() mixes a dense gradient with slices; rows equal an ordinary variable's."""
    case = LayerCase("sum", use_hashtable, "int64", 3)
    layer = case.make_layer(capacity=4, embedding_initializer="ones")
    ids = [[0, 0], [1], [], [0, 2, 3]]
    bags = [[7, 7], [9], [], [7, 8, 6]] if use_hashtable else ids
    table = layer.embedding_variable
    plain = tf.compat.v1.Variable(tf.ones([4, 3]), use_resource=True)
    scale = tf.reshape(tf.range(12.0), [2, 2, 3])
    outputs = layer(sparse_tensor(bags, 3)), case.reference(plain, sparse_tensor(ids, 3))
    losses = [
        tf.reduce_sum(output * scale) + 0.1 * tf.nn.l2_loss(variable.value())
        for output, variable in zip(outputs, (table, plain))
    ]
    if "LazyAdam" in str(optimizer):  # a dense gradient makes it ordinary Adam
        train = tf.compat.v1.train.AdamOptimizer(0.01)
        reference = train.apply_gradients(zip(tf.gradients(losses[1], [plain]), [plain]))
    else:
        reference = optimizer.train_reference(tf.gradients(losses[1], [plain]), [plain])
    steps = [optimizer.train_tables(tf.gradients(losses[0], [table]), [table]), reference]
    with initialized_session() as session:
        session.run(outputs[0])
        for _ in range(3):
            session.run(steps)
        np.testing.assert_allclose(*session.run([table.value(), plain]), rtol=1e-5)


def test_a_capacity_beyond_the_address_space_is_refused():
    with tf.Graph().as_default():
        sok.Init(global_batch_size=1)
        with pytest.raises(ValueError, match="lower max_vocabulary_size_per_gpu"):
            sok.All2AllDenseEmbedding(2**60, 4, 1, 1)
