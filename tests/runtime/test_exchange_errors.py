# SPDX-License-Identifier: Apache-2.0
"""What is said of an error: of one that ends the exchanges, of a session, and in eager mode."""

import pytest
import tensorflow as tf

from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.ranks.sentences_first import put_sentences_first
from sok_compat.runtime import integrations
from sok_compat.runtime.checked import checked
from sok_compat.runtime.error_texts import MOST_CHARACTERS, first_line
from sok_compat.tables import Table

tf1 = tf.compat.v1


def test_an_error_of_a_session_without_its_stack_traces():
    """TensorFlow's own message is kilobytes of the script's files."""
    with tf.Graph().as_default(), tf1.Session() as session:
        wrong = tf.io.parse_tensor(tf.constant(b"no tensor"), tf.float32)
        with pytest.raises(tf.errors.InvalidArgumentError) as raised:
            session.run(wrong)
    assert "most recent call last" in raised.value.message
    assert first_line(raised.value).startswith("Could not parse")
    assert "\n" not in first_line(raised.value)


def test_the_sentence_stands_before_the_stack():
    put_sentences_first()
    try:
        with tf.Graph().as_default(), tf1.Session() as session:
            table = Table(4, 2, use_hash_index=False, name="small")
            (rows,) = lookup_group([Lookup(table, tf.constant([9], tf.int64))], insert=True)
            other = tf.io.parse_tensor(tf.constant(b"no tensor"), tf.float32)
            session.run(tf1.global_variables_initializer())
            with pytest.raises(tf.errors.InvalidArgumentError) as raised:
                session.run(rows)
            with pytest.raises(tf.errors.InvalidArgumentError) as of_tensorflow:
                session.run(other)
    finally:
        integrations.undo("errors of tf.compat.v1.Session.run")
    sentence = raised.value.message.splitlines()[0]
    assert "small" in sentence and "9" in sentence
    assert "most recent call last" in raised.value.message
    assert first_line(raised.value) == sentence
    assert of_tensorflow.value.message.startswith("Graph execution error")


def test_an_error_of_eager_mode_is_its_sentence():
    table = Table(2, 3, name="small")
    with pytest.raises(tf.errors.ResourceExhaustedError) as raised:
        lookup_group([Lookup(table, tf.constant([1, 2, 3], tf.int64))], insert=True)
    assert raised.value.message.startswith("table 'small' is full: its capacity is 2 keys")
    assert raised.value.message.endswith(
        "3 new keys came; raise the capacity, or erase keys. The table is unchanged"
    )
    assert raised.value.error_code == tf.errors.RESOURCE_EXHAUSTED


def test_a_check_in_eager_mode_begins_with_its_message():
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        checked(tf.constant(1), False, "must be 2 and more, got", tf.range(5), tf.constant("x"))
    assert raised.value.message == "must be 2 and more, got 0 1 2 ... x"


@pytest.mark.parametrize(
    "error, line",
    [
        (RuntimeError(" \n first\nsecond"), "first"),
        (ValueError(), "ValueError"),
        (OSError("x" * 5000), "x" * MOST_CHARACTERS),
        (tf.errors.UnknownError(None, None, "2 root error(s) found.\n  (0) it"), "(0) it"),
        (ValueError("{{function_node __wrapped__F_device_/job:x}} a {b} [Op:F] name: "), "a {b}"),
    ],
)
def test_one_line_of_any_error(error, line):
    assert first_line(error) == line
