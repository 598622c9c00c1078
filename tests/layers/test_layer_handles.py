# SPDX-License-Identifier: Apache-2.0
"""Handles of layers, and lookups by table that read them."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.ranks.job import Job
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from sok_compat.sparse_operation_kit.core import (
    DenseEmbeddingLayerHandle,
    EmbeddingVariable,
    SparseEmbeddingLayerHandle,
    embedding_layer_handle,
)
from sok_compat.sparse_operation_kit.embeddings import embedding_ops
from tests.support.cases.layer_cases import ALL_CASES, MAX_NNZ, SLOT_NUM
from tests.support.sessions import initialized_session

cases = pytest.mark.parametrize("case", ALL_CASES[::2], ids=str)


def handles(sok):
    return tf.compat.v1.get_collection(sok.GraphKeys.SparseOperationKitEmbeddingLayers)


@cases
def test_handle_of_a_layer(sok, case):
    layer = case.make_layer()
    handle = layer.emb_layer
    assert handles(sok) == [handle]
    assert layer.embedding_variable.embedding_layer is handle
    assert handle.handle is layer.embedding_variable.emb_handle
    assert handle.embedding_variable is layer.embedding_variable
    assert isinstance(handle, embedding_layer_handle.EmbeddingLayerHandle)
    assert isinstance(handle.initializer, tf.Operation)
    assert handle.compute_dtype == tf.float32
    assert handle.slot_num == SLOT_NUM
    assert "EmbeddingVariable:0" in repr(handle)
    if case.is_sparse:
        assert isinstance(handle, SparseEmbeddingLayerHandle)
        assert (handle.combiner, handle.max_nnz) == (case.input, MAX_NNZ)
        assert handle.max_feature_num == SLOT_NUM * MAX_NNZ
    else:
        assert isinstance(handle, DenseEmbeddingLayerHandle)
        assert handle.nnz_per_slot == MAX_NNZ


def test_collection_keeps_the_order_of_layers(sok):
    layers = [case.make_layer() for case in ALL_CASES[:3]]
    assert handles(sok) == [layer.emb_layer for layer in layers]


def test_running_initializers_leaves_tables_alone(sok):
    """As restore ops of SparseOperationKit do, after the tables were initialized."""
    layer = ALL_CASES[-2].make_layer()
    output, num_keys = layer(tf.constant([1, 2], tf.int64)), layer.embedding_variable.num_keys()
    with initialized_session() as session:
        before = session.run(output)
        session.run([handle.initializer for handle in handles(sok)])
        assert session.run(num_keys) == 2
        np.testing.assert_array_equal(session.run(output), before)


def look_up(case, variable, inputs, **kwargs):
    if case.is_sparse:
        return embedding_ops.embedding_lookup_sparse(variable, inputs, SLOT_NUM, **kwargs)
    is_dynamic = case.input == "dynamic"
    return embedding_ops.embedding_lookup(variable, inputs, dynamic_input=is_dynamic, **kwargs)


@cases
@pytest.mark.parametrize("training", [True, False])
def test_lookup_by_table_equals_the_layer(sok, case, training):
    layer, inputs = case.make_layer(), case.placeholder()
    outputs = [
        layer(inputs, training=training),
        look_up(case, layer.embedding_variable, inputs, training=training),
    ]
    assert outputs[0].shape.as_list() == outputs[1].shape.as_list()
    rng = np.random.default_rng(0)
    batch = case.batch(rng, 4, case.keys(rng))
    with initialized_session() as session:
        np.testing.assert_array_equal(*session.run(outputs, {inputs: batch}))


@cases
def test_lookup_with_a_handle_made_by_hand(sok, case):
    """As SparseOperationKit's own layers are written, with its names of components."""
    variable = EmbeddingVariable([48, case.dim], 0, use_hashtable=case.use_hashtable)
    settings = dict(slot_num=SLOT_NUM, compute_dtype=tf.float16)
    if case.is_sparse:
        settings.update(max_nnz=case.max_nnz, combiner=case.input, embedding_executor="distributed")
        handle = SparseEmbeddingLayerHandle(variable, "all_gather_dispatcher", **settings)
    else:
        settings.update(nnz_per_slot=case.max_nnz, embedding_lookuper="dense_gather")
        handle = DenseEmbeddingLayerHandle(variable, "All2AllInput", **settings)
    variable.set_embedding_layer(handle)
    inputs = case.placeholder("int64")
    output = look_up(case, variable, inputs)
    assert output.dtype == handle.compute_dtype == tf.float16
    (gradient,) = tf.gradients(tf.reduce_sum(output), [variable])
    rng = np.random.default_rng(0)
    batch = case.batch(rng, 2, list(range(48)))
    keys = batch.values if case.is_sparse else batch
    with initialized_session() as session:
        slices = session.run(gradient, {inputs: batch})
        assert len(slices.indices) == len(np.unique(keys))


def test_compute_dtype_follows_the_policy(sok):
    policy = keras.mixed_precision.Policy("mixed_float16")
    assert ALL_CASES[0].make_layer(dtype=policy).emb_layer.compute_dtype == tf.float16


@pytest.mark.parametrize("case, function", [
    (ALL_CASES[0], lambda v: embedding_ops.embedding_lookup(v, tf.zeros([2, 2, 3], tf.int64))),
    (ALL_CASES[-4], lambda v: embedding_ops.embedding_lookup_sparse(v, None, 1)),
])  # fmt: skip
def test_lookup_of_the_other_kind(sok, case, function):
    with pytest.raises(TypeError, match="EmbeddingVariable has a (Dense|Sparse)EmbeddingLayer"):
        function(case.make_layer().embedding_variable)


def test_lookup_of_a_table_without_a_handle(sok):
    with pytest.raises(ValueError, match="no embedding layer yet"):
        embedding_ops.embedding_lookup(EmbeddingVariable([4, 2], 0), tf.zeros([1, 1, 1], tf.int64))


@pytest.fixture
def without_job(monkeypatch):
    """As before hvd.init(), which another test may have called in this process."""
    monkeypatch.setattr(embedding_ops, "active_job", Job)


def test_ranks_of_one_process(without_job):
    assert embedding_ops._get_comm_tool() == "OneDevice"
    assert embedding_ops.get_global_replica_id(embedding_ops._get_comm_tool()) == 0
    with tf.distribute.OneDeviceStrategy("CPU:0").scope():
        assert embedding_ops._get_comm_tool() == "Strategy"
        assert embedding_ops.get_global_replica_id("Strategy") == 0


@pytest.mark.parametrize("comm_tool", [None, "MPI", "Horovod", "other"])
def test_ranks_come_from_horovod(without_job, comm_tool):
    with pytest.raises(RuntimeError, match="from Horovod only"):
        embedding_ops.get_global_replica_id(comm_tool)
