# SPDX-License-Identifier: Apache-2.0
"""Columns of `tf.contrib.layers` are TensorFlow's, with the names and the order of TensorFlow 1."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from sok_compat.deeprec.contrib import layers
from sok_compat.deeprec.contrib.layers.python.layers.feature_column_ops import (
    input_from_feature_columns as input_of_columns,
)
from sok_compat.deeprec.optimizer_rules.train_optimizers import AdagradOptimizer
from sok_compat.deeprec.variables.options import EmbeddingVariableOption
from tests.support.sessions import initialized_session

tfc = tf.feature_column
IDS = [[1, 9, -1], [2, -1, -1], [-1, -1, -1], [3, 1, 12]]
ONES = tf.ones_initializer()


def features():
    ids = np.array(IDS)
    places = np.argwhere(ids >= 0)
    rates = tf.SparseTensor(places, np.arange(1.0, len(places) + 1, dtype=np.float32), ids.shape)
    return {
        "ids": tf.constant(IDS, tf.int64),
        "more": tf.constant([1, 2, 1, 0], tf.int64),
        "rate": rates,
        "words": tf.constant([["a", "b"], ["", ""], ["c", ""], ["a", "a"]]),
        "price": tf.constant([[0.5], [1.0], [-2.0], [3.0]]),
    }


def sparse_columns():
    """(of tf.contrib.layers, of tf.feature_column), in the order of TensorFlow 1."""
    hashed = layers.sparse_column_with_hash_bucket("words", 7)
    of_ids = layers.sparse_column_with_integerized_feature("ids", 20, combiner="mean")
    keys = layers.sparse_column_with_keys("more", [2, 1], dtype=tf.int64)
    price = layers.real_valued_column("price")
    theirs = [
        tfc.bucketized_column(tfc.numeric_column("price"), [0.0, 1.0]),
        tfc.categorical_column_with_hash_bucket("words", 7),
        tfc.categorical_column_with_identity("ids", 20),
        tfc.categorical_column_with_vocabulary_list("more", [2, 1], tf.int64),
        tfc.weighted_categorical_column(tfc.categorical_column_with_identity("ids", 20), "rate"),
    ]
    ours = [layers.bucketized_column(price, [0.0, 1.0, 1.0]), hashed, of_ids, keys]
    return [*ours, layers.weighted_sparse_column(of_ids, "rate")], theirs


def test_inputs_of_a_network():
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        (buckets, *ours), (their_buckets, *theirs) = sparse_columns()
        shared = layers.shared_embedding_columns([ours[1], ours[3]], 2, "sum", initializer=ONES)
        made = [layers.embedding_column(column, 3, max_norm=0.5) for column in ours]
        dense = [layers.one_hot_column(ours[2]), layers.real_valued_column("price"), buckets]
        by_column = {}
        outputs = layers.input_from_feature_columns(
            features(), [*dense, *made, *shared], ["mine"], cols_to_outs=by_column
        )
        names = {variable.op.name: variable for variable in tf.global_variables()}
        scope = "input_from_feature_columns"
        of_shared = "ids_ids_weighted_by_rate_shared_embedding"
        assert names.keys() == {
            *(f"{scope}/{column.name}_embedding/weights" for column in ours),
            f"{scope}/ids_shared_embedding/{of_shared}",
        }
        assert tf.get_collection("mine") == tf.global_variables()
        order = [buckets, made[0], shared[0], made[1], made[2], shared[1], made[3], *dense[:2]]
        assert list(by_column) == order

        def look_up(column, source):
            shared_name = getattr(column, "shared_embedding_collection_name", None)
            where = f"ids_shared_embedding/{of_shared}" if shared_name else f"{column.name}/weights"
            pair = source._get_sparse_tensors(builder)
            return tf.nn.safe_embedding_lookup_sparse(
                names[f"{scope}/{where}"], *pair, column.combiner, max_norm=column.max_norm
            )

        from tensorflow.python.feature_column.feature_column import _LazyBuilder

        builder = _LazyBuilder(features())
        sources = dict(zip(ours, theirs))
        expected = [
            look_up(column, sources[column.categorical_column])
            if column in (*made, *shared)
            else tf.feature_column.input_layer(features(), [their_dense])
            for column, their_dense in zip(
                order,
                [their_buckets, *[None] * 6, tfc.indicator_column(theirs[2]),
                 tfc.numeric_column("price")],
            )
        ]  # fmt: skip
        with initialized_session(rewrites=False) as session:
            session.run(tf.tables_initializer())
            found, those, parts = session.run([outputs, expected, list(by_column.values())])
            np.testing.assert_allclose(found, np.concatenate(those, 1), rtol=1e-6)
            np.testing.assert_array_equal(found, np.concatenate(parts, 1))
            of_ids = session.run(names[f"{scope}/ids_embedding/weights"])
            assert 0.1 < of_ids.std() * np.sqrt(20) < 1.2  # 1 / sqrt(number of ids)


def of_embedding_variables(model, embedded):
    """Losses of three steps over embedding variables, or over buckets of as many ids."""
    with tf.Graph().as_default():
        if embedded:
            column = layers.sparse_column_with_embedding("ids", tf.int64, steps_to_live=9)
            more = layers.sparse_column_with_embedding("more", tf.int64, steps_to_live=9)
        else:
            column = layers.sparse_column_with_integerized_feature("ids", 20)
            more = layers.sparse_column_with_integerized_feature("more", 20)
        columns = [column, more, layers.weighted_sparse_column(column, "rate")]
        if model == "sum":
            outputs, variables, bias = layers.weighted_sum_from_feature_columns(
                features(), [*columns, layers.real_valued_column("price")], 2, scope="linear"
            )
            assert len(variables) == 4 and bias.op.name == "linear/bias_weight"
        else:
            make = lambda column: layers.embedding_column(column, 2, initializer=ONES)  # noqa: E731
            shared = layers.shared_embedding_columns(columns[:2], 2, initializer=ONES)
            outputs = input_of_columns(features(), [*map(make, columns), *shared])
        is_embedded = [v.op.name for v in tf.get_collection("embedding_variables")]
        names = [v.op.name for v in tf.global_variables()]
        assert len(is_embedded) == (embedded and (3 if model == "sum" else 4))
        loss = tf.reduce_mean(tf.square(outputs - 3.0))
        train = AdagradOptimizer(0.3).minimize(loss)
        with initialized_session(rewrites=False) as session:
            return names, [session.run([loss, train])[0] for _ in range(3)]


@pytest.mark.parametrize("model", ["sum", "inputs"])
def test_embedding_variables(model):
    names, losses = of_embedding_variables(model, True)
    of_buckets = of_embedding_variables(model, False)
    assert names == of_buckets[0]
    np.testing.assert_allclose(losses, of_buckets[1], rtol=1e-5)
    assert losses[2] < losses[0]


def test_weighted_sum():
    ours, theirs = sparse_columns()
    with tf.Graph().as_default():
        model = layers.weighted_sum_from_feature_columns
        found, variables, _ = model(features(), [*ours, layers.real_valued_column("price")], 2)
        made = {}
        theirs = [*theirs, tfc.numeric_column("price")]
        parts = [  # a model for each combiner
            tfc.linear_model(features(), theirs[:2] + theirs[3:4] + theirs[5:], 2, "sum",
                             cols_to_vars=made),
            tfc.linear_model(features(), [theirs[2], theirs[4]], 2, "mean", cols_to_vars=made),
        ]  # fmt: skip
        scope = "weighted_sum_from_feature_columns"
        assert [v.op.name for v in tf.global_variables(f"{scope}/")] == [
            *(f"{scope}/price_bucketized/weights", f"{scope}/price/weight"),
            *(f"{scope}/{column.name}/weights" for column in ours[1:]),
            f"{scope}/bias_weight",
        ]
        pairs = zip([*ours, layers.real_valued_column("price")], theirs)
        with initialized_session(rewrites=False) as session:
            session.run(tf.tables_initializer())
            for number, (column, their) in enumerate(pairs):
                values = np.random.RandomState(number).normal(size=made[their][0].shape)
                variables[column][0].load(values, session)
                made[their][0].load(values, session)
            results, expected = session.run([found, parts])
            np.testing.assert_allclose(results, sum(expected), rtol=1e-5)


def test_examples_are_parsed():
    feature = tf.train.Feature
    example = tf.train.Example(
        features=tf.train.Features(
            feature={
                "words": feature(bytes_list=tf.train.BytesList(value=[b"a", b"b"])),
                "price": feature(float_list=tf.train.FloatList(value=[2.0])),
            }
        )
    )
    columns = [
        layers.one_hot_column(layers.sparse_column_with_keys("words", ["b", "a"])),
        layers.real_valued_column("price"),
    ]
    with tf.Graph().as_default():
        parsed = layers.parse_feature_columns_from_examples([example.SerializeToString()], columns)
        outputs = layers.input_from_feature_columns(parsed, columns)
        with initialized_session(rewrites=False) as session:
            session.run(tf.tables_initializer())
            np.testing.assert_array_equal(session.run(outputs), [[1, 1, 2]])


def hashed(**settings):
    return layers.sparse_column_with_hash_bucket("words", 7, **settings)


@pytest.mark.parametrize(
    "build, error, message",
    [
        (lambda: hashed(hash_keys=[[1, 2]]), NotImplementedError, "no hash_keys"),
        (lambda: layers.input_from_feature_columns({}, [hashed()]), ValueError, "'words': put it"),
        (
            lambda: layers.weighted_sum_from_feature_columns(
                features(), [layers.embedding_column(hashed(), 2)], 1
            ),
            ValueError,
            "'words_embedding' must be a sparse, bucketized",
        ),
        (lambda: layers.shared_embedding_columns("ab", 2), TypeError, "must be a list or tuple"),
        (lambda: layers.shared_embedding_columns([], 2), ValueError, "at least one column"),
        (
            lambda: layers.sparse_column_with_integerized_feature("a", 0),
            ValueError,
            "bucket_size >= 1 and an integer dtype, got 0 and int64",
        ),
        (
            lambda: layers.sparse_column_with_embedding(
                "a", init_data_source="table", ev_option=EmbeddingVariableOption()
            ),
            NotImplementedError,
            "no init_data_source",
        ),
        (lambda: layers.crossed_column, AttributeError, "whose hash is another one"),
    ],
)
def test_errors(build, error, message):
    with tf.Graph().as_default(), pytest.raises(error, match=message):
        build()


def test_shared_names_and_checkpoints(tmp_path):
    with tf.Graph().as_default(), initialized_session(rewrites=False) as session:
        weights = tf.get_variable("old", initializer=np.arange(14.0, dtype=np.float32)[:, None])
        session.run(weights.initializer)
        path = tf.train.Saver([weights]).save(session, str(tmp_path / "model"))
    with tf.Graph().as_default():
        made = [layers.sparse_column_with_hash_bucket(name, 7) for name in "dcab"]
        shared = layers.shared_embedding_columns(made, 1)
        assert shared[0].shared_embedding_collection_name == (
            "SHARED_EMBEDDING_COLLECTION_A_B_C_PLUS_1_OTHERS_SHARED_EMBEDDING"
        )
        column = layers.sparse_column_with_integerized_feature("ids", 14)
        column = layers.embedding_column(
            column, 1, ckpt_to_load_from=path, tensor_name_in_ckpt="old"
        )
        outputs = layers.input_from_feature_columns(features(), [column])
        with initialized_session(rewrites=False) as session:
            session.run(tf.tables_initializer())
            np.testing.assert_allclose(session.run(outputs)[:, 0], [5, 2, 0, 16 / 3])
