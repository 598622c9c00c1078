# SPDX-License-Identifier: Apache-2.0
"""linear_model over embedding variables trains as TensorFlow's over buckets of as many ids."""

import contextlib
import logging

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from sok_compat.deeprec.columns import feature_columns as fc
from sok_compat.deeprec.columns import stock_functions
from sok_compat.deeprec.columns.input_layers import input_layer
from sok_compat.deeprec.columns.linear_models import linear_model
from sok_compat.deeprec.optimizer_rules.train_optimizers import AdagradOptimizer
from tests.support.sessions import initialized_session

of_tensorflow = tf.feature_column
FEATURES = {
    "a": [[1, 1, -1], [2, -1, -1], [-1, -1, -1], [3, 1, 2]],
    "b": [[0], [5], [0], [7]],
    "rate": [[0.5, 2.0, 0.0], [1.5, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 2.0, -3.0]],
    "price": [[0.5], [1.0], [-2.0], [3.0]],
}
TARGETS = [[1.0, 0.0], [0.5, 2.0], [0.0, -1.0], [2.0, 1.0]]


def of_variables(key):
    return fc.categorical_column_with_embedding(key, tf.int64)


def of_buckets(key):
    return of_tensorflow.categorical_column_with_identity(key, 8)


def columns(categorical, has_others):
    rated = of_tensorflow.weighted_categorical_column(categorical("a"), "rate")
    if not has_others:
        return [categorical("a"), categorical("b")]
    ordinary = of_buckets if categorical is of_variables else categorical
    return [rated, of_tensorflow.numeric_column("price"), ordinary("b")]


def features():
    is_rated = np.array(FEATURES["a"]) >= 0
    rates = tf.SparseTensor(
        np.argwhere(is_rated), np.float32(FEATURES["rate"])[is_rated], is_rated.shape
    )
    others = {name: tf.constant(FEATURES[name]) for name in ("b", "price")}
    return {"a": tf.constant(FEATURES["a"], tf.int64), "rate": rates, **others}


def trained(model, categorical, combiner, has_others):
    """(names of variables, outputs of three steps)."""
    partitioner = tf.fixed_size_partitioner(2) if combiner == "mean" else None
    with tf.Graph().as_default(), tf.variable_scope("outer", partitioner=partitioner):
        given, made = features(), {}
        for _ in range(2):  # the second model has names of its own
            output = model(given, columns(categorical, has_others), 2, combiner, cols_to_vars=made)
        names = {variable.op.name for variable in tf.global_variables()}
        loss = tf.reduce_mean(tf.squared_difference(output, TARGETS))
        train = AdagradOptimizer(0.3).minimize(loss)
        assert {v.op.name for of in made.values() for v in of} <= names
        with initialized_session(rewrites=False) as session:
            return names, [session.run([output, train])[0] for _ in range(3)]


@pytest.mark.parametrize("categorical", [of_variables, of_buckets])
@pytest.mark.parametrize("kind", ["alone", "shared", "in a group", "linear"])
def test_weights_in_one_column(categorical, kind):
    """Only their number and order count, as in TensorFlow."""
    with tf.Graph().as_default():
        given = features()
        outputs = []
        for rates in (given["rate"], given["rate"].values[:, tf.newaxis]):
            column = of_tensorflow.weighted_categorical_column(categorical("a"), "rate")
            settings = dict(initializer=tf.ones_initializer(), combiner="sum")
            group = fc.group_embedding_column_scope("group") if kind == "in a group" else None
            with group or contextlib.nullcontext():
                columns = [fc.embedding_column(column, 2, **settings)]
                if kind == "shared":
                    settings["shared_embedding_collection_name"] = f"{len(outputs)}"
                    columns = fc.shared_embedding_columns([column], 2, **settings)
            if kind == "linear":  # its weights are zeros
                made = linear_model({**given, "rate": rates}, [column], 2)
                weights = [v for v in tf.trainable_variables() if "bias" not in v.name][-1]
                (made,) = tf.gradients(made * TARGETS, weights)
                made = getattr(made, "values", made)
            else:
                made = input_layer({**given, "rate": rates}, columns)
            outputs.append(made)
        with initialized_session(rewrites=False) as session:
            first, second = session.run(outputs)
            np.testing.assert_array_equal(first, second)
            assert first.any()


@pytest.mark.parametrize("combiner, has_others", [("sum", True), ("mean", False), ("mean", True)])
def test_it_trains_as_over_buckets(combiner, has_others):
    names, outputs = trained(linear_model, of_variables, combiner, has_others)
    of_stock = trained(of_tensorflow.linear_model, of_buckets, combiner, has_others)
    assert names == of_stock[0] and any("linear_model_1/bias_weights" in name for name in names)
    np.testing.assert_allclose(outputs, of_stock[1], atol=1e-6)
    assert not np.any(outputs[0]) and np.any(outputs[2])


def of_hashes(key):
    return of_tensorflow.categorical_column_with_hash_bucket(key, 5, tf.int64)


@pytest.mark.parametrize(
    "combiner, has_others", [("sum", False), ("sum", True), ("mean", False), ("sqrtn", False)]
)
def test_hashed_columns_train_as_tensorflow_trains_them(combiner, has_others):
    names, outputs = trained(linear_model, of_hashes, combiner, has_others)
    of_stock = trained(of_tensorflow.linear_model, of_hashes, combiner, has_others)
    assert names == of_stock[0]
    np.testing.assert_allclose(outputs, of_stock[1], atol=1e-6)
    assert np.any(outputs[2])


def test_fusion_is_ignored_and_said_once(caplog):
    stock_functions._say_fusion_is_ignored.cache_clear()
    with tf.Graph().as_default(), caplog.at_level(logging.WARNING, "sok_compat"):
        for do_fusion in (False, True, True):
            column = fc.embedding_column(of_buckets("b"), 2, do_fusion=do_fusion)
            linear_model(features(), [of_buckets("b"), column], do_fusion=do_fusion)
    assert [r.message for r in caplog.records] == [
        "do_fusion of tf.feature_column is ignored: it changes no result"
    ]
