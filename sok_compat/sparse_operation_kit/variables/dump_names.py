# SPDX-License-Identifier: Apache-2.0
"""Names of variables in the files of `dump` and `load`."""

from __future__ import annotations

import tensorflow as tf


def dump_name(name: str) -> str | None:
    """The name that a variable to make, called `name`, has in files; None: its own in the graph.

    As TensorFlow's eager variables, SparseOperationKit 2's keep the name that they are given,
    whatever others are called (dump_load.py takes var.name), while tables have unique names.
    """
    if not tf.executing_eagerly():
        return None
    with tf.name_scope(name) as scope:
        return f"{scope.rstrip('/')}:0"
