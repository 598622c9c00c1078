# SPDX-License-Identifier: Apache-2.0
"""DeepRec's initializers: a table of default rows, of which a key has row key mod their number."""

import dataclasses

import numpy as np
import tensorflow as tf

from sok_compat.runtime.tf_versions import Variable
from sok_compat.tables.first_value import FirstValue, parse_initializer


def first_value_of(name, initializer, init, embedding_dim, called, make_variable):
    """What the rows of an embedding variable start as.

    Stock distributions are functions of (seed, name, floormod(key, default_value_dim), column), so
    they are the same for any number of ranks. Anything else is run once, with the variable's
    initializer, for default_value_dim rows, which <name>/default_rows keeps.

    Args:
      name: of the embedding variable, without that of a part.
      initializer: None (a truncated normal of stddev 1), a class or instance of TF1 or Keras, a
        name that Keras knows, a callable of (shape, dtype); or a list, array or tensor
        [embedding_dim], in the place of all default rows.
      init: an InitializerOption; its initializer, if it has one, takes the place of the other.
      embedding_dim: floats in a row.
      called: the initializer, in messages.
      make_variable: makes an ordinary variable, of the arguments of tf.compat.v1.Variable.

    Raises:
      ValueError: it is none of these, or does not give rows of that size.
    """
    initializer = initializer if init.initializer is None else init.initializer
    if initializer is None:
        initializer = tf.compat.v1.truncated_normal_initializer()
    if isinstance(initializer, (list, tuple, np.ndarray, tf.Tensor, Variable)):
        row = _one_row(initializer, embedding_dim, called)
        return _of_rows(name, lambda: row, [1, embedding_dim], called, make_variable)
    shape = [init.default_value_dim, embedding_dim]
    first = parse_initializer(initializer, shape, called=called)
    if first.kind == "constant":
        return first
    if first.kind not in ("evaluated", "preset"):
        return dataclasses.replace(first, period=init.default_value_dim)
    return _of_rows(name, lambda: first.whole_table(shape), shape, called, make_variable)


def _one_row(value, embedding_dim, called):
    row = tf.convert_to_tensor(value)
    if not row.dtype.is_floating and not row.dtype.is_integer:
        raise ValueError(f"{called} must give numbers, got {row.dtype.name}")
    if not row.shape.is_compatible_with([embedding_dim]) and not row.shape.is_compatible_with(
        [1, embedding_dim]
    ):
        raise ValueError(
            f"{called} must be one row [embedding_dim = {embedding_dim}] where it is no "
            f"initializer, got shape {row.shape}"
        )
    return tf.reshape(tf.cast(row, tf.float32), [1, embedding_dim])


def _of_rows(name, make_rows, shape, called, make_variable):
    with tf.init_scope():
        rows = make_variable(
            initial_value=make_rows,
            trainable=False,
            use_resource=True,
            dtype=tf.float32,
            name=f"{name}/default_rows",
        )
    rows.shape.assert_is_compatible_with(shape)
    return FirstValue("evaluated", rows=rows, period=shape[0], called=called)
