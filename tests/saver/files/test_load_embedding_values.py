# SPDX-License-Identifier: Apache-2.0
"""`load_embedding_values`: rows for the keys 0, 1, 2, ..."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from tests.support.saves.saved_table import DIM, assert_rows_equal
from tests.support.sessions import initialized_session

VALUES = np.arange(5 * DIM, dtype=np.float32).reshape(5, DIM)
FORMS = {
    "array": VALUES,
    "nested-list": VALUES[:, np.newaxis].tolist(),  # five tables of one row
    "list": [VALUES[:2], VALUES[2:]],
    "tuple": (VALUES[:1], VALUES[1:4], VALUES[4:]),
    "one-in-a-list": [VALUES],
}


@pytest.mark.parametrize("tensors", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("as_tensors", [True, False])
@pytest.mark.parametrize("use_hashtable", [True, False], ids=["hash", "direct"])
def test_rows_get_the_keys_from_0(make_table, tensors, as_tensors, use_hashtable):
    saved = make_table(use_hashtable=use_hashtable)
    if as_tensors:
        is_sequence = isinstance(tensors, (list, tuple))
        tensors = (
            type(tensors)(tf.constant(t, tf.float32) for t in tensors)
            if is_sequence
            else tf.constant(tensors)
        )
    load = sok_compat.Saver().load_embedding_values(saved.table, tensors)
    with initialized_session() as session:
        assert session.run(load) == b"loaded."
        assert session.run(saved.table.num_keys()) == 5
        np.testing.assert_array_equal(
            session.run(saved.read, {saved.keys: [4, 0, 1]}), VALUES[[4, 0, 1]]
        )
        session.run(saved.step, {saved.keys: [4, 7]})
        assert session.run(saved.table.num_keys()) == 6


def test_a_variable_may_be_loaded(make_table):
    saved = make_table()
    source = tf.compat.v1.Variable(VALUES, use_resource=True)
    load = sok_compat.Saver().load_embedding_values(saved.table, source)
    with initialized_session() as session:
        session.run(load)
        assert_rows_equal(saved.rows(session), dict(enumerate(VALUES)))


def test_as_many_rows_as_fit(make_table):
    saved = make_table(capacity=5)
    with initialized_session() as session:
        session.run(saved.load, {saved.values: VALUES})
        assert session.run(saved.table.num_keys()) == 5


BAD_VALUES = {
    "empty": (np.zeros([0, DIM]), tf.errors.InvalidArgumentError, rf"\[n >= 1, {DIM}\].*\[0,{DIM}"),
    "vector": (np.zeros([DIM]), tf.errors.InvalidArgumentError, rf"\[n >= 1, {DIM}\]"),
    "cube": (np.zeros([2, DIM, 1]), tf.errors.InvalidArgumentError, rf"\[n >= 1, {DIM}\]"),
    "scalar": (0.0, tf.errors.InvalidArgumentError, rf"\[n >= 1, {DIM}\]"),
    "narrow": (np.zeros([2, DIM - 1]), tf.errors.InvalidArgumentError, rf"\[2,{DIM - 1}\]"),
    "wide": (np.zeros([2, DIM + 1]), tf.errors.InvalidArgumentError, rf"\[2,{DIM + 1}\]"),
    "too-many": (np.zeros([17, DIM]), tf.errors.ResourceExhaustedError, "17 keys.*16"),
}


@pytest.mark.parametrize("values, error, message", BAD_VALUES.values(), ids=BAD_VALUES)
@pytest.mark.parametrize("use_hashtable", [True, False], ids=["hash", "direct"])
def test_values_that_do_not_fit_leave_the_table_alone(
    make_table, use_hashtable, values, error, message
):
    saved = make_table(use_hashtable=use_hashtable)
    with initialized_session() as session:
        session.run(saved.step, {saved.keys: [3, 1]})
        before = saved.rows(session)
        with pytest.raises(error, match=f"EmbeddingVariable.*{message}"):
            session.run(saved.load, {saved.values: values})
        assert_rows_equal(saved.rows(session), before)
        session.run(saved.step, {saved.keys: [3, 2]})


def test_empty_list(make_table):
    with pytest.raises(ValueError):
        sok_compat.Saver().load_embedding_values(make_table().table, [])
