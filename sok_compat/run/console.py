# SPDX-License-Identifier: Apache-2.0
"""Keeps advice for other scripts off the console of a script for TensorFlow 1."""

from __future__ import annotations

import logging
import os
import sys
import warnings

_OF_CXX = "TF_CPP_MIN_LOG_LEVEL"
_WITHOUT_INFO = "1"
# As in "`tf.layers.dense` is deprecated and will be removed in a future version. Please use".
_OF_KERAS = r"`[\w.]+` is deprecated and will be removed in a future version"


def hide_deprecations() -> None:
    """Hides TensorFlow's deprecation warnings and the remarks of its C++ code on the processor.

    A script for TensorFlow 1 calls deprecated functions by design. Does nothing if Python was told
    which warnings to show (`python -W default`, PYTHONWARNINGS).
    """
    if sys.warnoptions:
        return
    os.environ.setdefault(_OF_CXX, _WITHOUT_INFO)
    logging.getLogger("tensorflow").addFilter(_is_no_deprecation)
    warnings.filterwarnings("ignore", _OF_KERAS)


def show_deprecations() -> None:
    """Undoes hide_deprecations, but for the level of C++ code, which TensorFlow reads once."""
    logging.getLogger("tensorflow").removeFilter(_is_no_deprecation)
    of_keras = [one for one in warnings.filters if getattr(one[1], "pattern", None) == _OF_KERAS]
    for one in of_keras:
        warnings.filters.remove(one)  # type: ignore[attr-defined]  # a list


def _is_no_deprecation(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("From %s: ")  # as all of tensorflow.python.util's do
