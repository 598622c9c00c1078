# SPDX-License-Identifier: Apache-2.0
"""DeepRec's initializers: key k starts as default row floormod(k, default_value_dim)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from sok_compat.deeprec.variables.options import InitializerOfRows, InitializerOption
from sok_compat.runtime.tf_versions import Variable
from sok_compat.tables.first_value import FirstValue, parse_initializer


def first_value_of(
    initializer: InitializerOfRows,
    init: InitializerOption,
    embedding_dim: int,
    called: str,
    seed: int,
) -> FirstValue:
    """The first values of an embedding variable's rows, which depend on no number of ranks.

    Stock distributions without a seed of their own are functions of (seed, name, floormod(key,
    default_value_dim), column). Other initializers run once, as part of the variable's
    initializer, for default_value_dim rows, which checkpoints store. So rows of an initializer
    with a seed are DeepRec's: those of an ordinary variable [default_value_dim, embedding_dim]
    with it (kv_variable_ops.py, feature_descriptor_impl.h).

    Args:
      initializer: None (a truncated normal with stddev 1), a class or instance of TF1 or Keras, a
        name known to Keras, or a callable of (shape, dtype); or a list, array or tensor
        [embedding_dim], used for all default rows.
      init: an InitializerOption; its initializer, if any, overrides `initializer`.
      embedding_dim: floats in a row.
      seed: of an initializer that runs, and of TensorFlow's random ops in it, if they have none.

    Raises:
      ValueError: the initializer is none of these, or gives rows of another size.
    """
    initializer = initializer if init.initializer is None else init.initializer
    if initializer is None:
        initializer = tf.compat.v1.truncated_normal_initializer()
    if isinstance(initializer, (list, tuple, np.ndarray, tf.Tensor, Variable)):
        return _of_rows(
            lambda: _one_row(initializer, embedding_dim, called), [1, embedding_dim], called
        )
    shape = [init.default_value_dim, embedding_dim]
    first = parse_initializer(initializer, shape, called=called)
    if first.kind == "constant":
        return first
    if first.seed is not None:
        first = FirstValue("preset", initializer=initializer, called=called)
    if first.kind not in ("evaluated", "preset"):
        return dataclasses.replace(first, period=init.default_value_dim)
    first = dataclasses.replace(first, initializer=_seeded(first.initializer, seed))
    make_rows = _drawing_alike(lambda: first.whole_table(shape), seed)
    return _of_rows(make_rows, shape, called)


def _seeded(initializer: Any, seed: int) -> Any:
    """An initializer of TensorFlow or Keras that has no seed, with this one; others as they are."""
    config = initializer.get_config() if hasattr(initializer, "get_config") else {}
    if "seed" not in config or config["seed"] is not None:
        return initializer
    return type(initializer).from_config({**config, "seed": seed})


def _drawing_alike(make_rows: Callable[[], tf.Tensor], seed: int) -> Callable[[], tf.Tensor]:
    """`make_rows`, in a function with this seed if it has random ops without one.

    The seeds of such ops go by their numbers in a graph, and the graphs of ranks may differ.
    """

    @tf.function(autograph=False)
    def rows(seed):
        tf.compat.v1.set_random_seed(seed)
        return make_rows()

    with tf.init_scope():
        ops = rows.get_concrete_function(None).graph.get_operations()
    has_seeds = [
        bool(op.get_attr("seed") or op.get_attr("seed2"))
        for op in ops
        if "seed2" in op.node_def.attr
    ]
    return make_rows if all(has_seeds) else lambda: rows(seed)


def _one_row(value: Any, embedding_dim: int, called: str) -> tf.Tensor:
    if isinstance(value, Variable):  # which the same step may initialize
        is_there, there, initial = value.is_initialized(), value.read_value, value.initial_value
        value = tf.cond(is_there, there, lambda: initial)
    row = tf.convert_to_tensor(value)
    if not row.dtype.is_floating and not row.dtype.is_integer:
        raise ValueError(f"{called} must give numbers, got {row.dtype.name}")
    if not row.shape.is_compatible_with([embedding_dim]) and not row.shape.is_compatible_with(
        [1, embedding_dim]
    ):
        raise ValueError(
            f"{called} must be an initializer or one row [embedding_dim = {embedding_dim}], got "
            f"shape {row.shape}"
        )
    return tf.reshape(tf.cast(row, tf.float32), [1, embedding_dim])


def _of_rows(make_rows: Callable[[], tf.Tensor], shape: Sequence[int], called: str) -> FirstValue:
    with tf.init_scope(), tf.name_scope("default_rows"):
        rows = make_rows()
    rows.shape.assert_is_compatible_with(shape)
    return FirstValue("rows", rows=rows, period=shape[0], called=called)
