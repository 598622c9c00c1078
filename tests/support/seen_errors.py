# SPDX-License-Identifier: Apache-2.0
"""What a rank reports of an error, beside what it was to see."""

import re


def assert_error_is(expected, error, message):
    """Checks one error.

    Args:
      expected: (its class, a pattern of words in its message), or None: there is none.
      error: what the rank said of its class; None: there was none.
      message: the error's.
    """
    if expected is None:
        assert error is None
        return
    kind, words = expected
    assert error and kind in error, message
    assert re.search(words, message.replace("\n", " ")), message
