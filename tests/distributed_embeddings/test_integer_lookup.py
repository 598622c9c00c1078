# SPDX-License-Identifier: Apache-2.0
"""`IntegerLookup` is a dictionary that fills up, in every mode, and is saved with its model."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.distributed_embeddings.integer_lookup import IntegerLookup
from sok_compat.runtime.tf_versions import has_keras_2
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from tests.support.behaviors import IS_TF1, computed, initialize


class Model:
    """What it does, in Python."""

    def __init__(self, max_tokens):
        self.max_tokens, self.ids, self.count = max_tokens, {-1: 0}, [0] * (max_tokens + 1)

    def __call__(self, keys):
        return np.vectorize(self._id_of, otypes=[np.int64])(keys)

    def _id_of(self, key):
        if key not in self.ids and len(self.ids) <= self.max_tokens:
            self.ids[key] = len(self.ids)
        self.count[self.ids.get(key, 0)] += 1
        return self.ids.get(key, 0)


def batches(num=12, seed=3):
    """Keys that come again, negative and large ones, -1 and 0 among them; of several shapes."""
    rng = np.random.default_rng(seed)
    pool = np.concatenate([np.arange(-40, 40), rng.integers(-(2**62), 2**62, 80) * 2])
    shapes = [(7,), (5, 4), (2, 3, 2), (0,), (), (60,)]
    return [rng.choice(pool, shapes[i % len(shapes)]).astype(np.int64) for i in range(num)]


def assert_equals_model(layer, model):
    assert layer.get_vocabulary() == list(model.ids)
    np.testing.assert_array_equal(keras.backend.get_value(layer.count), model.count)


@pytest.mark.skipif(IS_TF1, reason="of graphs, test_graph_mode is the same")
@pytest.mark.parametrize(("max_tokens", "as_function"), [(1, False), (50, True), (1000, False)])
def test_equals_a_dictionary(max_tokens, as_function):
    layer, model = IntegerLookup(max_tokens), Model(max_tokens)
    of_any_rank = [tf.TensorSpec(None, tf.int64)] if has_keras_2 else None  # Keras 3 has none
    call = tf.function(layer, of_any_rank) if as_function else layer
    for keys in batches():
        ids = call(tf.constant(keys))
        assert ids.dtype == tf.int64
        np.testing.assert_array_equal(ids, model(keys))
    assert_equals_model(layer, model)


def test_documented_example():
    layer = IntegerLookup(3 if IS_TF1 else tf.constant(3), use_gpu=False)
    initialize()
    assert computed(layer(tf.constant([[12, 1138], [12, 5]]))).tolist() == [[1, 2], [1, 3]]
    assert computed(layer(np.array([5, 99, 1138, 100]))).tolist() == [3, 0, 2, 0]
    assert layer.get_vocabulary() == [-1, 12, 1138, 5]
    assert (layer.capacity, layer.trainable_weights) == (4, [])


def test_layers_of_one_size_are_apart_and_a_new_trace_forgets_nothing():
    first, second = IntegerLookup(3), IntegerLookup(3)
    call = tf.function(first)
    initialize()
    assert computed(call(tf.constant([5, 6], tf.int64))).tolist() == [1, 2]
    assert computed(second(tf.constant([6], tf.int64))).tolist() == [1]
    assert computed(call(tf.constant([[7, 6, 5]], tf.int64))).tolist() == [[3, 2, 1]]


def test_key_that_stands_for_all_others_takes_no_id():
    """There it takes one."""
    layer = IntegerLookup(3)
    initialize()
    assert computed(layer(tf.constant([7, -1, 7, 9]))).tolist() == [1, 0, 1, 2]


def test_all_slots_but_few_are_taken():
    layer, model = IntegerLookup(2000), Model(2000)
    initialize()
    for begin in (0, 1500):
        keys = np.arange(begin, begin + 1500) * 3001  # neighbours, as numbers of users often are
        np.testing.assert_array_equal(computed(layer(keys)), model(keys))


def test_ragged_and_sparse_keys():
    layer = IntegerLookup(10)
    initialize()
    ragged = layer(tf.ragged.constant([[5, 6], [], [5]], dtype=tf.int64))
    values, splits = computed([ragged.values, ragged.row_splits])
    assert (values.tolist(), splits.tolist()) == ([1, 2, 1], [0, 2, 2, 3])
    sparse = layer(tf.sparse.from_dense([[0, 6], [8, 0]]))
    values, indices = computed([sparse.values, sparse.indices])
    assert (values.tolist(), indices.tolist()) == ([2, 3], [[0, 1], [1, 0]])


@pytest.mark.skipif(not has_keras_2, reason="Keras 3 is not for graphs")
def test_graph_mode():
    model = Model(20)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        layer = IntegerLookup(20)
        keys = tf.compat.v1.placeholder(tf.int64)
        ids = layer(keys)
        session.run(tf.compat.v1.global_variables_initializer())
        for batch in batches():
            np.testing.assert_array_equal(session.run(ids, {keys: batch}), model(batch))
        assert_equals_model(layer, model)


@pytest.mark.thorough
@pytest.mark.skipif(IS_TF1, reason="a SavedModel is loaded, and checkpoints are read, otherwise")
@pytest.mark.parametrize("how", ["checkpoint", "weights", "h5", *(["saved model"] * has_keras_2)])
def test_vocabulary_is_saved_with_the_model(how, tmp_path):
    def make():
        inputs = keras.Input([3], dtype=tf.int64)
        return keras.Model(inputs, IntegerLookup(5, name="vocabulary")(inputs))

    first, second = make(), make()
    first(tf.constant([[4, 40, 400]], tf.int64))
    second(tf.constant([[1, 2, 3]], tf.int64))  # what it knew is forgotten
    if how == "checkpoint":
        path = tf.train.Checkpoint(model=first).save(str(tmp_path / "checkpoint"))
        tf.train.Checkpoint(model=second).restore(path).assert_consumed()
    elif how == "weights":
        second.set_weights(first.get_weights())
    elif how == "h5":
        first.save_weights(str(tmp_path / "model.weights.h5"))
        second.load_weights(str(tmp_path / "model.weights.h5"))
    else:
        first.save(str(tmp_path / "model"))
        second = keras.models.load_model(
            str(tmp_path / "model"), custom_objects={"IntegerLookup": IntegerLookup}
        )
    assert second(tf.constant([[400, 7, 4]], tf.int64)).numpy().tolist() == [[3, 4, 1]]
    assert second.get_layer("vocabulary").get_vocabulary() == [-1, 4, 40, 400, 7]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: IntegerLookup(0), "max_tokens must be at least 1, got 0"),
        (lambda: IntegerLookup(3)(tf.constant([1.0])), "keys must be int64 or int32, got float32"),
    ],
)
def test_wrong_use_raises(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_configuration():
    layer = IntegerLookup(7, use_gpu=False, name="words")
    again = IntegerLookup.from_config(layer.get_config())
    assert (again.max_tokens, again.use_gpu, again.name) == (7, False, "words")
