# SPDX-License-Identifier: Apache-2.0
"""`tf.contrib.rnn`: the cells that TensorFlow 2 has in tf.nn.rnn_cell."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from sok_compat.deeprec import contrib


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if not hasattr(tf.nn.rnn_cell, name):
        raise contrib.missing(f"rnn.{name}")
    return getattr(tf.nn.rnn_cell, name)


def __dir__() -> list[str]:
    return dir(tf.nn.rnn_cell)
