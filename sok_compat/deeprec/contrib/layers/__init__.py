# SPDX-License-Identifier: Apache-2.0
"""`tf.contrib.layers`: layers, feature columns, initializers and regularizers."""

from __future__ import annotations

from typing import NoReturn

from sok_compat.deeprec import contrib
from sok_compat.deeprec.contrib.layers.python.layers import *  # noqa: F403


def __getattr__(name: str) -> NoReturn:
    raise contrib.missing(f"layers.{name}")
