# SPDX-License-Identifier: Apache-2.0
"""nn.embedding_lookup and its sparse kin give for embedding variables what they give for others."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.deeprec.lookups import stock_lookups as nn
from sok_compat.deeprec.lookups.fused_lookup import fused_safe_embedding_lookup_sparse
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
NUM_KEYS, DIM = 10, 3
IDS = [[3, 3, 1], [], [9], [0, 2], []]
WEIGHTS = [[0.5, 2.0, 1.0], [], [3.0], [1.0, 0.25], []]


def sparse(bags, dtype):
    return tf.ragged.constant(bags, dtype=dtype, ragged_rank=1).to_sparse()


@pytest.fixture(params=[None, 3], ids="{} parts".format)
def variable(graph, request):
    partitioner = request.param and tf1.fixed_size_partitioner(request.param)
    return get_embedding_variable("v", DIM, partitioner=partitioner)


def check(variable, look_up):
    """look_up(params) gives the same for the variable as for one of TensorFlow's."""
    rows = tf1.placeholder(tf.float32, [NUM_KEYS, DIM])
    everything = nn.embedding_lookup(variable, tf.range(NUM_KEYS))
    ours, expected = look_up(variable), look_up(rows)
    parts = list(variable) if hasattr(variable, "__len__") else [variable]
    gradients = tf.gradients(ours**2, parts)
    wanted = tf.convert_to_tensor(tf.gradients(expected**2, rows)[0])
    with initialized_session() as session:
        fed = {rows: session.run(everything)}
        values = session.run([ours, expected], fed)
        np.testing.assert_allclose(*values, rtol=1e-5)
        assert ours.shape.is_compatible_with(values[0].shape)
        total = np.zeros([NUM_KEYS, DIM])
        for part, slices in zip(parts, session.run(gradients)):
            keys = session.run(part.export())[0]
            np.add.at(total, keys[slices.indices], slices.values)
        np.testing.assert_allclose(total, session.run(wanted, fed), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("max_norm", [None, 1.0])
def test_embedding_lookup(variable, max_norm):
    ids = tf.constant([[1, 2], [2, 9]])
    check(variable, lambda params: nn.embedding_lookup(params, ids, max_norm=max_norm))


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_embedding_lookup_sparse(variable, combiner, weights):
    of_ids = weights and sparse(weights, tf.float32)
    ids = sparse(IDS, tf.int64)
    check(
        variable,
        lambda params: nn.embedding_lookup_sparse(params, ids, of_ids, combiner=combiner),
    )


@pytest.mark.parametrize("name", ["embedding_lookup_sparse", "safe_embedding_lookup_sparse"])
@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_weights_are_trained(variable, name, combiner):
    """As those of attention."""
    ids, given = sparse(IDS, tf.int64), sparse(WEIGHTS, tf.float32)
    rows = nn.embedding_lookup(variable, tf.range(NUM_KEYS))
    gradients = []
    for params in (variable, rows):
        weights = given.with_values(tf.identity(given.values))
        output = getattr(nn, name)(params, ids, weights, combiner=combiner)
        gradients += map(tf.convert_to_tensor, tf.gradients(output**2, weights.values))
    with initialized_session() as session:
        of_variable, of_rows = session.run(gradients)
    assert of_rows.any()
    np.testing.assert_allclose(of_variable, of_rows, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("default_id", [None, 7])
def test_safe_embedding_lookup_sparse(variable, combiner, weights, default_id):
    of_ids = weights and sparse(weights, tf.float32)
    ids = sparse([[3, -5, 1], [], [9], [-1, -2], []], tf.int64)
    check(
        variable,
        lambda params: nn.safe_embedding_lookup_sparse(
            params, ids, of_ids, combiner, default_id, max_norm=2.0
        ),
    )


SAFE_IDS = [[3, -5, 1], [], [9], [-1, -2], [], [3, 3]]


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("rank", [2, 3])
def test_fused_safe_embedding_lookup_sparse(variable, combiner, rank):
    ids = sparse(SAFE_IDS, tf.int64)
    if rank == 3:
        ids = tf.sparse.reshape(ids, [2, 3, 3])
    check(variable, lambda params: fused_safe_embedding_lookup_sparse(params, ids, None, combiner))


@pytest.mark.parametrize("use_resource", [False, True])
def test_a_fused_lookup_of_an_ordinary_variable(graph, use_resource):
    rows = np.random.default_rng(0).normal(size=[NUM_KEYS, DIM]).astype(np.float32)
    variable = tf1.get_variable("v", initializer=rows, use_resource=use_resource)
    ids = tf.sparse.reshape(sparse(SAFE_IDS, tf.int64), [3, 2, 3])
    outputs = [
        look_up(variable, ids)
        for look_up in (fused_safe_embedding_lookup_sparse, tf1.nn.safe_embedding_lookup_sparse)
    ]
    gradients = [tf.convert_to_tensor(tf.gradients(output**2, variable)[0]) for output in outputs]
    with initialized_session() as session:
        for ours, expected in (session.run(outputs), session.run(gradients)):
            np.testing.assert_allclose(ours, expected, rtol=1e-5)
            assert np.any(ours)
    types = [op.type for op in graph.get_operations()]
    assert types.count("SokPoolReceivedRows") == 1


def test_tensorflows_own_functions(graph):
    variable = get_embedding_variable("v", DIM, initializer=tf1.ones_initializer())
    ids = sparse(IDS, tf.int64)
    weights = sparse(WEIGHTS, tf.float32)
    outputs = [
        tf.nn.embedding_lookup([variable], [1, 2]),
        tf.gather(variable, [1, 2]),
        tf1.nn.embedding_lookup_sparse(variable, ids, weights, combiner="sum"),
        tf1.nn.safe_embedding_lookup_sparse(variable, ids, combiner="sum"),
    ]
    with initialized_session() as session:
        found = session.run(outputs)
    np.testing.assert_array_equal(found[0], np.ones([2, DIM]))
    np.testing.assert_array_equal(found[1], np.ones([2, DIM]))
    np.testing.assert_array_equal(found[2][:, 0], [3.5, 0, 3, 1.25])
    np.testing.assert_array_equal(found[3][:, 0], [3, 0, 1, 2, 0])


def test_what_is_refused(graph):
    both = [get_embedding_variable(name, DIM) for name in "ab"]
    with pytest.raises(TypeError, match="takes a single embedding variable"):
        nn.embedding_lookup(both, [1])
    with pytest.raises(NotImplementedError, match="prune=False"):
        nn.safe_embedding_lookup_sparse(both[0], sparse(IDS, tf.int64), prune=False)
    with pytest.raises(TypeError, match="sp_ids must be SparseTensor"):
        nn.embedding_lookup_sparse(both[0], tf.constant([1]), None)


@pytest.mark.parametrize("name", ["embedding_lookup_sparse", "safe_embedding_lookup_sparse"])
def test_weights_that_are_not_those_of_the_ids(variable, name):
    look_up, ids = getattr(nn, name), sparse(IDS, tf.int64)
    for weights, message in (
        (tf.ones([6]), "weights must be None or SparseTensor, got "),
        (ids, "weights must be floats, got int64"),
    ):
        with pytest.raises(TypeError, match=message):
            look_up(variable, ids, weights)
    static = [
        tf.SparseTensor(np.int64([[0, i] for i in range(n)]), tf.ones([n], dtype), [1, 3])
        for n, dtype in ((3, tf.int64), (2, tf.float32))
    ]
    message = r"ids: sp_weights must have .* the shape \(2, 2\), those of the ids \(3, 2\)"
    with pytest.raises(ValueError, match=message):
        look_up(variable, *static)
    output = look_up(variable, ids, sparse([[1.0, 1.0], [1.0], [1.0], [1.0, 1.0], []], tf.float32))
    refuses = pytest.raises(
        tf.errors.InvalidArgumentError, match="ids: sp_weights must have the shape"
    )
    with initialized_session() as session, refuses:
        session.run(output)
