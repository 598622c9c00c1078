# SPDX-License-Identifier: Apache-2.0
"""Helpers of SparseOperationKit 2. The module's name is that of its API."""

from __future__ import annotations

import datetime

import numpy as np
import tensorflow as tf

from sok_compat.runtime.tf_versions import VERSION

tf_version = list(VERSION)  # [major, minor] of TensorFlow

_EPOCH = datetime.datetime(1970, 1, 1)


def SOK_IndexedSlices() -> type[tf.IndexedSlices]:
    """Returns the class tf.IndexedSlices. API of SparseOperationKit 2."""
    return tf.IndexedSlices


def get_nano_time(datetime_str: str) -> np.uint64:
    """Returns nanoseconds from 1970 to a moment in UTC. API of SparseOperationKit 2.

    Args:
      datetime_str: the moment, as '2026-01-31 23:59:59'.

    Raises:
      ValueError: it has another form, a time zone, or is before 1970.
    """
    moment = datetime.datetime.fromisoformat(datetime_str)
    if moment.tzinfo is not None or moment < _EPOCH:
        raise ValueError(
            f"datetime_str must be from 1970 on, in UTC and without a zone, got {datetime_str!r}"
        )
    return np.uint64((moment - _EPOCH) // datetime.timedelta(microseconds=1) * 1000)


__all__ = ["SOK_IndexedSlices", "get_nano_time", "tf_version"]
