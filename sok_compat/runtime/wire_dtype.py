# SPDX-License-Identifier: Apache-2.0
"""As what rows and gradients travel between ranks: a setting of a graph."""

import os
import weakref

import tensorflow as tf

WIRE_VARIABLE = "SOK_WIRE_DTYPE"
WIRE_DTYPES = ("float32", "bfloat16", "float16")

_of_graphs = weakref.WeakKeyDictionary()
_of_eager_code = []  # of at most one


def wire_dtype():
    """What lookups that are built now send: what `set_wire_dtype` was given for the graph around
    all functions, or in eager mode for it; else the environment's SOK_WIRE_DTYPE, else 'float32'.

    Raises:
      ValueError: the environment's is another name.
    """
    with tf.init_scope():
        if tf.executing_eagerly():
            chosen = _of_eager_code[0] if _of_eager_code else None
        else:
            chosen = _of_graphs.get(tf.compat.v1.get_default_graph())
    return chosen or checked_wire_dtype(os.environ.get(WIRE_VARIABLE, "float32"), WIRE_VARIABLE)


def set_wire_dtype(name):
    """Settles it for lookups of the default graph that are built from now on, or in eager mode.

    Args:
      name: 'float32', 'bfloat16' or 'float16', or the tf.DType; None: the environment's.

    Raises:
      ValueError: another one.
    """
    name = None if name is None else checked_wire_dtype(name)
    with tf.init_scope():
        if tf.executing_eagerly():
            _of_eager_code[:] = [] if name is None else [name]
        else:
            _of_graphs[tf.compat.v1.get_default_graph()] = name


def checked_wire_dtype(name, where="wire_dtype"):
    """The name of one of WIRE_DTYPES, of it or of its tf.DType.

    Raises:
      ValueError: it is none.
    """
    text = name.name if isinstance(name, tf.DType) else name
    if text not in WIRE_DTYPES:
        raise ValueError(f"{where} must be one of {', '.join(WIRE_DTYPES)}, got {name!r}")
    return text
