# SPDX-License-Identifier: Apache-2.0
"""The names of `tf.contrib` that embedding scripts use; TensorFlow 2 has no `tf.contrib`."""

from __future__ import annotations

import importlib
from typing import Any

import tensorflow.compat.v1 as tf

_FILES = ("feature_column", "framework", "layers", "lookup", "rnn", "training")  # beside this one
_MOVED = {  # {module of tf.contrib: its path under tf in TensorFlow 2}
    "data": "data.experimental",
}
_INSTEAD = {
    "apply_regularization": "tf.losses.get_regularization_loss",
    "bias_add": "tf.nn.bias_add",
    "crossed_column": "tf.feature_column.crossed_column, whose hash is another one",
    "distribute": "tf.distribute",
    "embed_sequence": "tf.nn.embedding_lookup",
    "embedding_lookup_unique": "tf.nn.embedding_lookup",
    "estimator": "tf.estimator",
    "framework": "tf.get_variable, tf.get_collection or tf.train",
    "get_variables": "tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, scope)",
    "keras": "tf.keras",
    "layers": "tf.layers or tf.feature_column",
    "learn": "tf.estimator",
    "losses": "tf.losses",
    "metrics": "tf.metrics",
    "one_hot_encoding": "tf.one_hot",
    "opt": "tf.train.AdamWOptimizer, or sok_compat.tf.keras.optimizers.LazyAdamOptimizer",
    "optimize_loss": "an optimizer of tf.train",
    "python": "its package's own names, as tf.contrib.framework.arg_scope",
    "safe_embedding_lookup_sparse": "tf.nn.safe_embedding_lookup_sparse",
    "rnn": "tf.nn.rnn_cell or tf.nn",
    "saved_model": "tf.saved_model",
    "slim": "tf.contrib.layers, tf.contrib.framework.arg_scope or tf.layers",
    "softmax": "tf.nn.softmax",
    "static_bidirectional_rnn": "tf.nn.static_bidirectional_rnn",
    "static_rnn": "tf.nn.static_rnn",
    "summary": "tf.summary",
    "unit_norm": "tf.nn.l2_normalize",
    "util": "tf.make_tensor_proto or tf.make_ndarray",
}


def missing(path: str) -> AttributeError:
    """The AttributeError for a missing name under `tf.contrib`."""
    head, name = path.split(".")[0], path.split(".")[-1]
    instead = _INSTEAD.get(name) or _INSTEAD.get(head)
    remedy = f"use {instead}" if instead else f"sok_compat has its {', '.join(_names())} only"
    return AttributeError(f"TensorFlow 2 has no tf.contrib, so no tf.contrib.{path}: {remedy}")


def _names() -> list[str]:
    return sorted((*_FILES, *_MOVED))


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _FILES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _MOVED:
        raise missing(name)
    value = tf
    for part in _MOVED[name].split("."):
        value = getattr(value, part)
    return value


def __dir__() -> list[str]:
    return _names()
