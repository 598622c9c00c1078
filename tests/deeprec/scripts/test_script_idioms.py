# SPDX-License-Identifier: Apache-2.0
"""Idioms of DeepRec's scripts beside embeddings: weights of full precision, stages that are fed."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from sok_compat.deeprec.contrib import lookup
from sok_compat.deeprec.lookups.pipelining import make_prefetch_hook, staged
from sok_compat.deeprec.variables.kept_weights import VariableScope
from tests.support.processes.subprocess_python import run_python


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_weights_are_kept_and_computed_with_as_they_are_asked_for():
    with VariableScope("dnn", reuse=tf.AUTO_REUSE).keep_weights(dtype=tf.float32) as scope:
        half = tf.get_variable("w", [2], tf.bfloat16, tf.constant_initializer(1 + 2**-12))
        again = tf.get_variable("w", [2], tf.float16)
        full = tf.get_variable("w", [2], tf.float32)
        count = tf.get_variable("n", [], tf.int32, tf.zeros_initializer())
        with tf.variable_scope("inner"):
            inner = tf.get_variable("w", [2], tf.bfloat16)
    with tf.variable_scope(scope):
        assert tf.get_variable("w", [2], tf.bfloat16).dtype == tf.bfloat16
    outside = tf.get_variable("w", [2], tf.bfloat16)
    assert [t.dtype for t in (half, again, inner)] == [tf.bfloat16, tf.float16, tf.bfloat16]
    assert not any(isinstance(tensor, tf.Variable) for tensor in (half, again, inner))
    dtypes = {variable.op.name: variable.dtype.base_dtype for variable in tf.global_variables()}
    assert dtypes == {"dnn/w": tf.float32, "dnn/n": tf.int32, "dnn/inner/w": tf.float32,
                      "w": tf.bfloat16}  # fmt: skip
    assert count.dtype.base_dtype == tf.int32 and outside.dtype.base_dtype == tf.bfloat16
    (gradient,) = tf.gradients(tf.reduce_sum(half), [full])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(full), np.float32([1 + 2**-12] * 2))
        np.testing.assert_array_equal(
            session.run([tf.cast(half, tf.float32), gradient]), [[1, 1]] * 2
        )


def test_a_custom_getter_of_the_scope_is_asked_with_the_kept_dtype():
    asked = []

    def getter(get, name, *args, **kwargs):
        asked.append((name, kwargs["dtype"]))
        return get(name, *args, **kwargs)

    with VariableScope("dnn", custom_getter=getter).keep_weights():
        assert tf.get_variable("w", [2], tf.bfloat16).dtype == tf.bfloat16
    assert asked == [("dnn/w", tf.float32)]


def test_layers_of_less_precision_train_weights_of_full():
    printed = run_python("""
        import numpy as np
        import sok_compat.deeprec as tf

        with tf.variable_scope("dnn", reuse=tf.AUTO_REUSE).keep_weights(dtype=tf.float32):
            inputs = tf.cast(tf.ones([4, 8]), dtype=tf.bfloat16)
            outputs = tf.layers.dense(inputs, units=1, activation=None)
            outputs = tf.cast(outputs, dtype=tf.float32)
        loss = tf.reduce_mean(tf.square(outputs - 3))
        step = tf.train.AdagradOptimizer(0.5).minimize(loss)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            losses = [session.run([loss, step])[0] for _ in range(40)]
        assert losses[-1] < 1e-2 * losses[0], losses
        print(*sorted(v.dtype.name for v in tf.trainable_variables()))
    """)
    assert printed.splitlines()[-1] == "float32_ref float32_ref"


@pytest.mark.parametrize("name", ["feed_list", "items", None])
def test_stages_are_fed_step_by_step(name):
    x, y = tf.placeholder(tf.int32, []), tf.placeholder(tf.int32, [2])
    values = ([i, [i, 2 * i]] for i in range(3))
    if name is None:  # by position
        features = staged({"sum": x + y}, [x, y], values, capacity=2)
    else:
        features = staged({"sum": x + y}, capacity=2, feed_generator=values, **{name: [x, y]})
    seen = []
    with tf.train.MonitoredTrainingSession(hooks=[make_prefetch_hook()]) as session:
        while not session.should_stop():
            seen.append(session.run(features)["sum"].tolist())
    assert seen == [[0, 0], [2, 3], [4, 6]]


def test_a_feed_list_needs_a_generator():
    with pytest.raises(ValueError, match="needs both feed_list and feed_generator"):
        staged(tf.zeros([]), feed_list=[tf.placeholder(tf.int32)])
    with pytest.raises(ValueError, match="needs both feed_list and feed_generator"):
        staged(tf.zeros([]), [tf.placeholder(tf.int32)])


@pytest.mark.parametrize("how", ["by name", "by position"])
def test_feeds_of_stages_by_a_dict_raise(how):
    x = tf.placeholder(tf.int32, [])
    feeds = {x: tf.constant(1)}
    with pytest.raises(ValueError, match="takes no feed_dict here, .* make the features of its"):
        staged(x + 1, feeds) if how == "by position" else staged(x + 1, feed_dict=feeds)
    assert staged(x, {}) is staged(x, feed_dict={}) is x


def test_tables_of_contrib(tmp_path):
    words, file = ["a", "b"], tmp_path / "words.txt"
    file.write_text("a\nb\n")
    pairs = lookup.KeyValueTensorInitializer(words, [5, 6])
    ids_of = [
        lookup.index_table_from_file(str(file), num_oov_buckets=1),
        lookup.index_table_from_tensor(mapping=tf.constant(words), default_value=7),
        lookup.HashTable(pairs, -1),
    ]
    words_of = [
        lookup.index_to_string_table_from_file(str(file), default_value="?"),
        lookup.index_to_string_table_from_tensor(mapping=words),
    ]
    found = [table.lookup(tf.constant(["b", "x", "a"])) for table in ids_of]
    found += [table.lookup(tf.constant([1, 9], tf.int64)) for table in words_of]
    with tf.Session() as session:
        session.run(tf.tables_initializer())
        ids, words = session.run([found[:3], found[3:]])
    assert [row.tolist() for row in ids] == [[1, 2, 0], [1, 7, 0], [6, -1, 5]]
    assert [row.tolist() for row in words] == [[b"b", b"?"], [b"b", b"UNK"]]
    assert lookup.StaticVocabularyTable is tf.lookup.StaticVocabularyTable
    with pytest.raises(AttributeError, match="so no tf.contrib.lookup.no_such"):
        lookup.no_such  # noqa: B018
