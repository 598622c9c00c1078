# SPDX-License-Identifier: Apache-2.0
"""get_embedding_variable: names and reuse, growth, and what is no dense tensor."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.deeprec.lookups.group_lookup import group_embedding_lookup_sparse
from sok_compat.deeprec.variables.embedding_variable import (
    EMBEDDING_VARIABLES,
    EV_INIT_SLOT_OPS,
    EV_INIT_VAR_OPS,
)
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1


def test_names_and_reuse(graph):
    with tf.name_scope("not_this"), tf1.variable_scope("outer"):
        with tf1.variable_scope("inner"):
            first = get_embedding_variable("v", 3)
        with tf1.variable_scope("inner", reuse=True):
            assert get_embedding_variable("v", 3) is first
        with tf1.variable_scope("inner", reuse=tf1.AUTO_REUSE):
            assert get_embedding_variable("v", 3) is first
            other = get_embedding_variable("w", 3)
            assert tf1.get_variable("v", [3]) is first
    assert first.name == "outer/inner/v:0" and other.op.name == "outer/inner/w"
    with pytest.raises(ValueError, match="already exists, disallowed"):
        get_embedding_variable("outer/inner/v", 3)


def test_what_cannot_be_reused(graph):
    get_embedding_variable("v", 3)
    tf1.get_variable("ordinary", [3])
    with tf1.variable_scope("", reuse=True):
        with pytest.raises(ValueError, match="does not exist"):
            get_embedding_variable("missing", 3)
        with pytest.raises(ValueError, match="specified shape"):
            get_embedding_variable("v", 4)
        with pytest.raises(ValueError, match="with key_dtype int64, requested with int32"):
            get_embedding_variable("v", 3, key_dtype=tf.int32)
        with pytest.raises(ValueError, match="ordinary:0 already exists, and is not an embedding"):
            get_embedding_variable("ordinary", 3)


@pytest.mark.parametrize("num_parts", [2, 4])
def test_another_number_of_parts_cannot_be_reused(graph, num_parts):
    """Each number shares the keys in another way."""
    get_embedding_variable("whole/part_0", 3)
    with tf1.variable_scope("", reuse=tf1.AUTO_REUSE):
        get = lambda name, n: get_embedding_variable(  # noqa: E731
            name, 3, partitioner=tf1.fixed_size_partitioner(n)
        )
        first, again = get("v", 3), get("v", 3)
        assert all(ours is same for ours, same in zip(first, again))
        with pytest.raises(ValueError, match=f"of 3 parts, requested as one of {num_parts}"):
            get("v", num_parts)
        with pytest.raises(ValueError, match=f"of no parts, requested as one of {num_parts}"):
            get("whole", num_parts)
        with pytest.raises(ValueError, match="No partitioner was provided"):
            get_embedding_variable("v", 3)
    assert len(tf1.global_variables()) == 4


def test_collections(graph):
    keys = tf1.GraphKeys
    seeded = tf1.random_uniform_initializer(seed=3)  # its rows are no variable of the script's
    both = [
        get_embedding_variable("v", 2, initializer=seeded),
        get_embedding_variable("w", 2, trainable=False),
    ]
    local = get_embedding_variable("l", 2, collections=[keys.LOCAL_VARIABLES])
    assert tf1.trainable_variables() == [both[0], local]
    assert tf1.global_variables() == both and tf1.local_variables() == [local]
    assert tf1.get_collection(EMBEDDING_VARIABLES) == [*both, local]
    rows = tf.nn.embedding_lookup(both[0], [1])
    with tf1.Session() as session:
        session.run(tf1.get_collection(EV_INIT_VAR_OPS))
        session.run(tf1.get_collection(EV_INIT_SLOT_OPS))
        assert session.run(rows).shape == (1, 2)
        session.run(tf1.global_variables_initializer())


@pytest.mark.parametrize("write", [tf1.scatter_update, tf1.scatter_nd_add])
def test_parts_are_not_written_by_index(graph, write):
    whole = get_embedding_variable("whole", 2, partitioner=tf1.fixed_size_partitioner(2))
    with pytest.raises(NotImplementedError, match="a write by index is not supported on .* whole"):
        write(whole, [1], [[7.0, 7.0]])


def test_small_keys(graph):
    variable = get_embedding_variable("v", 2, key_dtype=tf.int32)
    assert variable.invalid_key == -1
    rows = tf.nn.embedding_lookup(variable, tf.constant([[5, 6]], tf.int32))
    assert rows.shape.as_list() == [1, 2, 2] and variable.shape.as_list() == [2]
    gradient = tf.gradients(rows, variable)[0]
    with initialized_session() as session:
        session.run(gradient)
        keys, *_ = session.run(variable.export())
    assert keys.dtype == np.int32 and sorted(keys) == [5, 6]
    with pytest.raises(TypeError, match="ids of the embedding variable v must be integers"):
        tf.nn.embedding_lookup(variable, [1.0])


@pytest.mark.parametrize("look_up", [
    tf.nn.embedding_lookup,
    lambda variable, ids: group_embedding_lookup_sparse(
        [variable], [tf.SparseTensor([[0, 0], [0, 1]], ids, [1, 2])], ["sum"]
    ),
])  # fmt: skip
def test_keys_that_could_not_be_saved(graph, look_up):
    variable = get_embedding_variable("v", 2, key_dtype=tf.int32)
    ids = tf1.placeholder(tf.int64, [2])
    rows = look_up(variable, ids)
    with initialized_session() as session:
        session.run(rows, {ids: [-(2**31), 2**31 - 1]})
        for wide in (-(2**31) - 1, 2**31):
            with pytest.raises(tf.errors.InvalidArgumentError, match="of .* v must fit in int32"):
                session.run(rows, {ids: [1, wide]})


DENSE = {
    "value": lambda v: v.value(),
    "read_value": lambda v: v.read_value(),
    "sum": lambda v: v + 1.0,
    "product": lambda v: 2.0 * v,
    "conversion": tf.convert_to_tensor,
    "l2_loss": tf.nn.l2_loss,
    "matmul": lambda v: tf.matmul(tf.ones([1, 2]), v),
    "concat": lambda v: tf.concat([v, v], 0),
    "part": lambda v: v[0],
    "assign": lambda v: v.assign(tf.ones([1, 2])),
    "tf1 assign": lambda v: tf1.assign(v, tf.ones([2])),
    "assign_add": lambda v: v.assign_add(tf.ones([1, 2])),
    "assign_sub": lambda v: v.assign_sub(tf.ones([1, 2])),
    "scatter_update": lambda v: v.scatter_update(tf.IndexedSlices(tf.ones([1, 2]), [0])),
    "gather_nd": lambda v: tf.gather_nd(v, [[0]]),
    "histogram": lambda v: tf1.summary.histogram("x", v),
    "initialized_value": lambda v: v.initialized_value(),
}


@pytest.mark.parametrize("misuse", DENSE)
def test_it_is_no_dense_tensor(graph, misuse):
    variable = get_embedding_variable("v", 2)
    with pytest.raises(NotImplementedError, match="v"):
        DENSE[misuse](variable)


def test_a_session_does_not_fetch_it(graph):
    variable = get_embedding_variable("v", 2)
    with (
        initialized_session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match="session.run is not supported on"),
    ):
        session.run(variable)


def test_regularizers_and_constraints(graph):
    with pytest.raises(NotImplementedError, match="do not support a constraint"):
        get_embedding_variable("v", 2, constraint=lambda x: x)
    with (
        tf1.variable_scope("s", regularizer=tf.nn.l2_loss),
        pytest.raises(NotImplementedError, match="do not support a regularizer"),
    ):
        get_embedding_variable("v", 2)


@pytest.mark.parametrize("arguments, message", [
    (dict(embedding_dim=0), "embedding_dim must be an int >= 1, got 0"),
    (dict(embedding_dim=2.5), "embedding_dim must be an int >= 1, got 2.5"),
    (dict(embedding_dim=2, key_dtype=tf.string), "key_dtype must be int64 or int32"),
    (dict(embedding_dim=2, value_dtype=tf.float64), "value_dtype must be one of float32"),
    (dict(embedding_dim=2, name=""), "must be a string, got ''"),
    (dict(embedding_dim=2, ev_option=3), "must be an EmbeddingVariableOption, got 3"),
    (dict(embedding_dim=2, initializer="no such"), "must be None, a name that Keras knows"),
])  # fmt: skip
def test_wrong_arguments(graph, arguments, message):
    with pytest.raises(ValueError, match=message):
        get_embedding_variable(**{"name": "v", **arguments})


def test_eager_mode():
    with pytest.raises(ValueError, match="v: embedding variables need graph mode"):
        get_embedding_variable("v", 2)


@pytest.mark.parametrize("in_scope", [True, False])
def test_partitioner(graph, in_scope):
    partitioner = tf1.fixed_size_partitioner(3)
    scope = (
        tf1.variable_scope("s", partitioner=partitioner) if in_scope else contextlib.nullcontext()
    )
    with scope:
        given = None if in_scope else partitioner
        variable = get_embedding_variable(
            "v", 2, partitioner=given, initializer=tf1.ones_initializer()
        )
    prefix = "s/v" if in_scope else "v"
    assert [part.name for part in variable] == [f"{prefix}/part_{i}:0" for i in range(3)]
    assert variable.name == prefix and len(variable) == 3
    keys = np.array([[0, 1000, 1001, -1], [2005, 7, 7, 3]])
    rows = variable.sparse_read(keys)
    gradients = tf.gradients(rows, list(variable))
    with initialized_session() as session:
        np.testing.assert_array_equal(session.run(rows), np.ones([2, 4, 2]))
        session.run(gradients)
        for number, part in enumerate(variable):
            exported = session.run(part.export())[0]
            assert set(exported) == {key for key in keys.ravel() if key % 1000 % 3 == number}
        assert session.run(variable.total_count()).tolist() == [7, 2]


@pytest.fixture
def control_flow_v1():
    was_v2 = tf1.control_flow_v2_enabled()
    tf1.disable_control_flow_v2()
    yield
    if was_v2:
        tf1.enable_control_flow_v2()


def test_rows_in_branches(control_flow_v1, graph):
    variable = get_embedding_variable("v", 2, initializer=tf1.ones_initializer())
    flag = tf1.placeholder(tf.bool, [])
    rows = tf.cond(flag, lambda: tf.nn.embedding_lookup(variable, [1, 2]), lambda: tf.zeros([2, 2]))
    gradient = tf.gradients(rows, variable)[0]
    with initialized_session() as session:
        session.run(gradient.indices, {flag: False})
        assert session.run(variable.num_keys()) == 0
        session.run(gradient.indices, {flag: True})
        assert session.run(variable.num_keys()) == 2
