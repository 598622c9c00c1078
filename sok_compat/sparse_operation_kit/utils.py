# SPDX-License-Identifier: Apache-2.0
"""Helpers of SparseOperationKit 2. The module's name is that of its API."""

from __future__ import annotations

import tensorflow as tf

from sok_compat.runtime.tf_versions import VERSION

tf_version = list(VERSION)  # [major, minor] of TensorFlow


def SOK_IndexedSlices() -> type[tf.IndexedSlices]:
    """Returns the class tf.IndexedSlices. API of SparseOperationKit 2."""
    return tf.IndexedSlices


__all__ = ["SOK_IndexedSlices", "tf_version"]
