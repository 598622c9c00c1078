# SPDX-License-Identifier: Apache-2.0
"""Loads the op library. `ops.sok_table_size(...)` and so on are its ops."""

import tensorflow as tf


def library_path():
    """The op library's file.

    Raises:
      ImportError: it was not built, or for another TensorFlow.
    """
    try:
        from sok_compat.runtime import _build_info
    except ImportError as error:
        raise ImportError(
            "this sok_compat was built without its TensorFlow op library (SOK_TENSORFLOW=OFF); "
            "only sok_compat.HashTable works. Install TensorFlow, then sok_compat again."
        ) from error
    built_for = _build_info.TENSORFLOW_VERSION
    if built_for != tf.__version__:
        raise ImportError(
            f"sok_compat's op library was built for TensorFlow {built_for}, but {tf.__version__} "
            "is installed. Build it again: pip install --force-reinstall --no-cache-dir sok_compat"
        )
    return _build_info.OPS_LIBRARY


ops = tf.load_op_library(str(library_path()))
