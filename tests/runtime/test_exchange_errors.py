# SPDX-License-Identifier: Apache-2.0
"""What is said of an error that ends the exchanges."""

import pytest
import tensorflow as tf

from sok_compat.runtime.error_texts import MOST_CHARACTERS, first_line

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


@pytest.mark.parametrize(
    "error, line",
    [
        (RuntimeError(" \n first\nsecond"), "first"),
        (ValueError(), "ValueError"),
        (OSError("x" * 5000), "x" * MOST_CHARACTERS),
        (tf.errors.UnknownError(None, None, "2 root error(s) found.\n  (0) it"), "(0) it"),
    ],
)
def test_one_line_of_any_error(error, line):
    assert first_line(error) == line
