# SPDX-License-Identifier: Apache-2.0
"""Tables of DistributedEmbedding have the rows that their layers' policies ask for."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat as sok
from sok_compat.distributed_embeddings.python.layers import dist_model_parallel as dmp
from sok_compat.distributed_embeddings.python.layers.embedding import Embedding
from sok_compat.runtime.settings import ROW_DTYPE
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from sok_compat.runtime.tf_versions import variable_of
from tests.support.behaviors import IS_TF1, initialize

IDS = [tf.constant([1, 3, 3]) if not IS_TF1 else np.array([1, 3, 3])] * 3
WEIGHTS = [np.linspace(-1, 1, 10).reshape(5, 2).astype(np.float32) + i for i in range(3)]


@pytest.fixture(params=["bfloat16", "float16"])
def dtype(request):
    return request.param


def make(*dtypes):
    return dmp.DistributedEmbedding([Embedding(5, 2, dtype=dtype) for dtype in dtypes])


def nearest(values, dtype):
    return values.astype(tf.as_dtype(dtype).as_numpy_dtype).astype(np.float32)


def row_dtypes(layer):
    return [variable_of(weight).row_dtype.name for weight in layer.weights]


def test_the_variable_dtype_counts(dtype):
    layer = make(dtype, "float32", f"mixed_{dtype}")
    outputs = layer(IDS)
    assert row_dtypes(layer) == [dtype, "float32", "float32"]
    assert {output.dtype for output in outputs} == {tf.float32}
    initialize()
    layer.set_weights(WEIGHTS)
    read = layer.get_weights()
    for given, found, its in zip(WEIGHTS, read, (dtype, "float32", "float32")):
        np.testing.assert_array_equal(found, nearest(given, its))


def test_others_have_the_default(monkeypatch, dtype):
    monkeypatch.setenv(ROW_DTYPE.name, dtype)
    layer = make("float32", None, dtype)
    layer(IDS)
    assert set(row_dtypes(layer)) == {dtype}


@pytest.mark.skipif(IS_TF1, reason="Keras's optimizers are for eager mode")
def test_training_and_checkpoints(tmp_path, dtype):
    layers, trained = {}, {}
    for its in ("float32", dtype):
        layers[its] = layer = make(its, its, its)
        layer(IDS)
        layer.set_weights(WEIGHTS)
        optimizer = keras.optimizers.SGD(0.1)
        for _ in range(3):
            with tf.GradientTape() as tape:
                loss = tf.add_n([tf.reduce_sum(output**2) for output in layer(IDS)])
            variables = layer.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        trained[its] = layer.get_weights()
    for narrow, wide in zip(trained[dtype], trained["float32"]):
        np.testing.assert_array_equal(narrow, nearest(narrow, dtype))
        np.testing.assert_allclose(narrow, wide, atol=0.03)
    sok.checkpoint.save_tables_in_checkpoints()
    for its, layer in layers.items():
        path = tf.train.Checkpoint(layer=layer).save(f"{tmp_path}/{its}")
        dtypes = tf.train.load_checkpoint(path).get_variable_to_dtype_map()
        assert {each.name for name, each in dtypes.items() if "/rows" in name} == {its}
        for restored in layers:
            other = make(restored, restored, restored)
            other(IDS)
            tf.train.Checkpoint(layer=other).restore(path)
            for found, saved in zip(other.get_weights(), trained[its]):
                np.testing.assert_array_equal(found, nearest(saved, restored))
