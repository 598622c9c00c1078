# SPDX-License-Identifier: Apache-2.0
"""The names of `tf.contrib` that scripts for embedding tables use; TensorFlow 2 has none of it."""

import importlib

import tensorflow.compat.v1 as tf

_FILES = ("feature_column", "framework", "layers", "lookup", "training")  # beside this one
_MOVED = {  # what became of a module: {name: path under tf}
    "data": "data.experimental",
    "rnn": "nn.rnn_cell",
}
_INSTEAD = {
    "batch_norm": "tf.layers.batch_normalization",
    "fully_connected": "tf.layers.dense",
    "opt": "sok_compat.tf.keras.optimizers.LazyAdamOptimizer for its LazyAdamOptimizer",
    "slim": "tf.layers",
}


def missing(path):
    """The AttributeError for a name under `tf.contrib` that is not here."""
    head, name = path.split(".")[0], path.split(".")[-1]
    instead = _INSTEAD.get(name) or _INSTEAD.get(head)
    remedy = f"take {instead}" if instead else f"here there are {', '.join(_names())} of it"
    return AttributeError(f"TensorFlow 2 has no tf.contrib, and so no tf.contrib.{path}: {remedy}")


def _names():
    return sorted((*_FILES, *_MOVED))


def __getattr__(name):
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


def __dir__():
    return _names()
