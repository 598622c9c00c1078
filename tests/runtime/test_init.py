# SPDX-License-Identifier: Apache-2.0
"""`Init`: its arguments, what it holds for, what needs it."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from sok_compat.sparse_operation_kit.core import EmbeddingVariable
from tests.support.cases.layer_cases import LayerCase
from tests.support.processes.subprocess_python import run_python
from tests.support.sessions import initialized_session

BAD_ARGUMENTS = [
    (dict(), KeyError, "global_batch_size"),
    (dict(seed=1), KeyError, "global_batch_size"),
    (dict(global_batch_size=0), ValueError, "at least 1, got 0"),
    (dict(global_batch_size=-8), ValueError, "at least 1, got -8"),
    (dict(global_batch_size=2.0), TypeError, "global_batch_size must be an int, got 2.0"),
    (dict(global_batch_size="8"), TypeError, "global_batch_size must be an int, got '8'"),
    (dict(global_batch_size=None), KeyError, "global_batch_size"),
    (dict(global_batch_size=8, sead=3), TypeError, "no argument 'sead': did you mean 'seed'"),
    (dict(batch_size=8), TypeError, "no argument 'batch_size': did you mean 'global_batch_size'"),
    (dict(global_batch_size=8, xyz=1), TypeError, "'xyz': it takes global_batch_size, seed, wire"),
    (dict(global_batch_size=8, seed=1.5), TypeError, "seed must be an int, got 1.5"),
    (dict(global_batch_size=8, seed=2**63), ValueError, "seed must fit in 64 bits"),
]
GOOD_ARGUMENTS = [
    dict(global_batch_size=1),
    dict(global_batch_size=np.int64(64), seed=np.int32(3)),
    dict(global_batch_size=8, seed=0),
    dict(global_batch_size=8, seed=None),
    dict(global_batch_size=8, seed=-(2**63)),
]
LAYER = LayerCase("dynamic", True, "int64")


def first_rows(init_arguments, name_scope=None, skip_layers=0, initializer=None):
    """The first values of three keys in a graph of its own."""
    with tf.Graph().as_default():
        sok_compat.Init(**init_arguments)
        for _ in range(skip_layers):
            LAYER.make_layer()
        with tf.name_scope(name_scope or ""):
            layer = LAYER.make_layer(embedding_initializer=initializer)
        output = layer(tf.constant([3, 4, 5], tf.int64))
        with initialized_session() as session:
            return session.run(output)


@pytest.mark.parametrize("arguments, error, message", BAD_ARGUMENTS)
def test_bad_arguments(graph, arguments, error, message):
    with pytest.raises(error, match=message):
        sok_compat.Init(**arguments)


@pytest.mark.parametrize("arguments", GOOD_ARGUMENTS)
def test_good_arguments(graph, arguments):
    status = sok_compat.Init(**arguments)
    output = LAYER.make_layer()(tf.constant([1], tf.int64))
    with tf.compat.v1.Session() as session:
        assert session.run(status) == b"OK"
        session.run(tf.compat.v1.global_variables_initializer())
        assert np.all(session.run(output) != 0)


def test_seed_decides_on_first_values():
    base = first_rows(dict(global_batch_size=8, seed=3))
    np.testing.assert_array_equal(first_rows(dict(global_batch_size=64, seed=3)), base)
    assert not np.any(first_rows(dict(global_batch_size=8, seed=4)) == base)


def test_no_seed_is_a_random_seed():
    assert not np.any(
        first_rows(dict(global_batch_size=8)) == first_rows(dict(global_batch_size=8))
    )


@pytest.mark.parametrize("other", [dict(name_scope="scope"), dict(skip_layers=1)])
def test_table_name_decides_on_first_values(other):
    base = first_rows(dict(global_batch_size=8, seed=3))
    assert not np.any(first_rows(dict(global_batch_size=8, seed=3), **other) == base)


def test_seed_of_the_initializer_goes_before():
    seeded = tf.compat.v1.random_normal_initializer(seed=9)
    base = first_rows(dict(global_batch_size=8, seed=3), initializer=seeded)
    other = first_rows(dict(global_batch_size=8, seed=4), initializer=seeded)
    np.testing.assert_array_equal(other, base)


@pytest.mark.parametrize("is_eager", [False, True], ids=["graph", "eager"])
def test_other_settings_are_told(graph, caplog, is_eager):
    with contextlib.nullcontext() if not is_eager else tf.init_scope():
        sok_compat.Init(global_batch_size=8, seed=1)
        caplog.clear()
        sok_compat.Init(global_batch_size=8, seed=1)
        assert not caplog.records
        sok_compat.Init(global_batch_size=16)
    (warning,) = caplog.messages
    assert "global_batch_size=16 (before: 8) and seed=None (before: 1)" in warning


NEED_INIT = {
    "DistributedEmbedding": lambda: sok_compat.DistributedEmbedding("sum", 10, 4, 1, 1),
    "All2AllDenseEmbedding": lambda: sok_compat.All2AllDenseEmbedding(10, 4, 1, 1),
    "EmbeddingVariable": lambda: EmbeddingVariable([10, 4], 0),
}


@pytest.mark.parametrize("name, make", NEED_INIT.items(), ids=NEED_INIT)
def test_before_init(graph, name, make):
    with pytest.raises(RuntimeError, match=f"{name} needs sok.Init: call sok.Init"):
        make()


def test_init_holds_for_its_graph_only(sok):
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="needs sok.Init"):
        LAYER.make_layer()
    LAYER.make_layer()


def test_eager_init_holds_in_graphs_made_later():
    printed = run_python(
        """
        import tensorflow as tf
        import sok_compat as sok

        print(sok.Init(global_batch_size=8, seed=1).numpy())
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            layer = sok.All2AllDenseEmbedding(10, 4, 1, 1, dynamic_input=True)
            output = layer(tf.constant([1, 2], tf.int64))
            session.run(tf.compat.v1.global_variables_initializer())
            print(session.run(output).shape)
        """
    )
    assert printed.splitlines() == ["b'OK'", "(2, 4)"]
