# SPDX-License-Identifier: Apache-2.0
"""Keeps advice for other scripts off the console of a script for TensorFlow 1."""

from __future__ import annotations

import logging
import os
import sys
import warnings

_RANKS = ("HOROVOD_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK")  # as those set who start ranks
_OF_CXX = "TF_CPP_MIN_LOG_LEVEL"
_WITHOUT_INFO = "1"
# As in "`tf.layers.dense` is deprecated and will be removed in a future version. Please use".
_OF_KERAS = r"`[\w.]+` is deprecated and will be removed in a future version"


def hide_deprecations() -> None:
    """Hides TensorFlow's deprecation warnings and the remarks of its C++ code on the processor,
    and on other ranks than the first TensorFlow's messages on its progress.

    A script for TensorFlow 1 calls deprecated functions by design. Does nothing if Python was told
    which warnings to show (`python -W default`, PYTHONWARNINGS).
    """
    if sys.warnoptions:
        return
    os.environ.setdefault(_OF_CXX, _WITHOUT_INFO)
    logging.getLogger("tensorflow").addFilter(_is_shown)
    warnings.filterwarnings("ignore", _OF_KERAS)


def show_deprecations() -> None:
    """Undoes hide_deprecations, but for the level of C++ code, which TensorFlow reads once."""
    logging.getLogger("tensorflow").removeFilter(_is_shown)
    of_keras = [one for one in warnings.filters if getattr(one[1], "pattern", None) == _OF_KERAS]
    for one in of_keras:
        warnings.filters.remove(one)  # type: ignore[attr-defined]  # a list


def rank_of_process() -> str | None:
    """The rank that this process was started as, if it was by a launcher of ranks."""
    return next((os.environ[name] for name in _RANKS if name in os.environ), None)


def _is_shown(record: logging.LogRecord) -> bool:
    if str(record.msg).startswith("From %s: "):  # as all of tensorflow.python.util's do
        return False
    is_of_tensorflow = f"-packages{os.sep}tensorflow" in record.pathname
    has_numbers_of_rank = record.funcName.startswith("_log_")  # of a hook: its loss, its speed
    is_of_all_ranks = (
        record.levelno == logging.INFO and is_of_tensorflow and not has_numbers_of_rank
    )
    return not is_of_all_ranks or rank_of_process() in (None, "0")
