# SPDX-License-Identifier: Apache-2.0
"""Values for each argument of the layers: right ones, and wrong ones that an error must name."""

import dataclasses
from typing import Any, Callable

import numpy as np
import tensorflow as tf

from sok_compat.runtime.tf_versions import keras_of_layers as keras

DIM_LIMIT = 64  # so that a case stays small
ABSENT = "(not given)"


@dataclasses.dataclass(frozen=True)
class Made:
    """A value that is made when it is used, in the graph of the case."""

    text: str
    make: Callable = dataclasses.field(repr=False)


def made(value):
    """The value itself."""
    return value.make() if isinstance(value, Made) else value


@dataclasses.dataclass(frozen=True)
class FirstValues:
    """A right initializer, and what is known of the rows it gives.

    constant: the rows' value. preset: row n of the table is n everywhere. limit: absolute bound.
    """

    initializer: Any
    constant: Any = None
    is_preset: bool = False
    limit: float = float("inf")


def _row_numbers(shape, dtype=None, **kwargs):
    """Wants to know the number of rows, so that it is run once for the whole table."""
    count, dim = (int(size) for size in shape)
    return tf.repeat(tf.range(count, dtype=dtype)[:, tf.newaxis], dim, axis=1)


def _quarters(shape, dtype=None, **kwargs):
    """Of no stock class: run for the new keys of a step."""
    return tf.fill(shape, tf.constant(0.25, dtype))


FIRST_VALUES = [
    FirstValues(None, limit=0.05),
    FirstValues("uniform", limit=0.05),
    FirstValues("normal"),
    FirstValues("glorot_uniform", limit=3.0),
    FirstValues("zeros", 0.0),
    FirstValues("ones", 1.0),
    FirstValues(Made("tf1.constant(-3)", lambda: tf.compat.v1.constant_initializer(-3.0)), -3.0),
    FirstValues(Made("Constant(nan)", lambda: keras.initializers.Constant(np.nan)), np.nan),
    FirstValues(
        Made("truncated", lambda: tf.compat.v1.truncated_normal_initializer(0.0, 2.0, seed=4)),
        limit=4.001,
    ),
    FirstValues(Made("class RandomNormal", lambda: keras.initializers.RandomNormal)),
    FirstValues(Made("quarters", lambda: _quarters), 0.25),
]
PRESET = FirstValues(Made("row numbers", lambda: _row_numbers), is_preset=True)

_NO_INTS = [
    None, 1.0, 1.5, float("nan"), float("inf"), "2", "", b"1", [3], (1,), {}, object, int, 1 + 0j,
    np.array([1, 2]), np.array(2.0), np.float32(2), Made("tf.constant(3)", lambda: tf.constant(3)),
    Made("tf.Variable(3)", lambda: tf.compat.v1.Variable(3)),
]  # fmt: skip
_NO_SIZES = [*_NO_INTS, 0, -1, -(2**63), 2**63, 2**64, 10**30]
_NO_FLAGS = [
    None, "False", "", 2, -1, 1.0, float("nan"), [], [False], {}, object, np.array([True, False]),
    np.array([]), Made("tf.constant(True)", lambda: tf.constant(True)),
]  # fmt: skip
FLAGS = {True: [True, 1, np.True_, np.int64(1)], False: [False, 0, np.False_, np.int8(0)]}
KEY_DTYPES = {
    "int64": [None, "int64", tf.int64, np.int64, np.dtype("int64")],
    "uint32": ["uint32", tf.uint32, np.uint32, np.dtype("uint32")],
}
DTYPES = {"float32": 1e-5, "float64": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}  # their tolerance


def _wrong_shape(shape, dtype=None, **kwargs):
    return tf.zeros([3, 3, 3], dtype)


def _wrong_dtype(shape, dtype=None, **kwargs):
    return tf.fill(shape, "text")


WRONG = {
    "combiner": [
        None, "", "max", "sqrtn", "sum ", b"sum", 1, ["sum"], ("mean",), {"sum"}, object,
        np.array(["sum", "mean"]), Made("tf.constant(sum)", lambda: tf.constant("sum")), ABSENT,
    ],
    "max_vocabulary_size_per_gpu": [*_NO_SIZES, 2**46, 2**62, 2**63 - 1, ABSENT],
    "embedding_vec_size": [*_NO_SIZES, 2**46, 2**63 - 1, ABSENT],
    "slot_num": [*_NO_SIZES, ABSENT],
    "max_nnz": [*_NO_SIZES, ABSENT],
    "nnz_per_slot": [*_NO_SIZES, ABSENT],
    "max_feature_num": _NO_SIZES,
    "use_hashtable": _NO_FLAGS,
    "dynamic_input": _NO_FLAGS,
    "key_dtype": [
        "", "int32", "nonsense", tf.int32, tf.uint64, tf.string, np.float32, float, str, object,
        [], {}, b"int64x", float("nan"), (1, 2),
        Made("tf.constant(1)", lambda: tf.constant(1)),
    ],
    "embedding_initializer": [
        "no_such", "", b"ones", 3, 0.5, [1.0], (0.0, 1.0), {"class_name": "Nothing"}, object(),
        np.zeros(3), object, int, tf.float32, Made("no arguments", lambda: lambda: 1.0),
        Made("wrong shape", lambda: _wrong_shape), Made("wrong dtype", lambda: _wrong_dtype),
        Made("gives None", lambda: lambda shape, dtype=None, **kwargs: None),
        Made("tf.constant(1.0)", lambda: tf.constant(1.0)),
    ],
    "name": [3, 2.5, b"name", ["name"], "", " name", "n me", "na\nme", "naïve", object],
    "dtype": ["nonsense", "int32", "string", "bool", tf.int64, tf.string, 3.5, object],
    "trainable": _NO_FLAGS,
    "no_such_argument": [1, None],
}  # fmt: skip
