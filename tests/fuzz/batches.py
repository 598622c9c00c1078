# SPDX-License-Identifier: Apache-2.0
"""The inputs of a layer's call: batches as they should be, and every way to spoil them."""

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1

BIG = 2**31
FAULTY_KEY = 0  # in the batches with a fault elsewhere; every table can hold it
UNEQUAL_LENGTHS = ("more-keys-than-indices", "fewer-keys-than-indices")


def placeholder(layer):
    """What batches are fed to; its static shape says nothing, so that faults reach the ops."""
    keys = tf1.placeholder(layer.key_dtype)
    if not layer.is_sparse:
        return keys
    return tf.SparseTensor(tf1.placeholder(tf.int64), keys, tf1.placeholder(tf.int64))


def value(layer, bags):
    """The batch as it should be."""
    keys = np.array([key for bag in bags for key in bag], layer.key_dtype)
    if not layer.is_sparse:
        shape = [-1] if layer.is_dynamic else [len(bags) // _per_sample(layer), layer.slot_num,
                                               layer.keys_per_slot]  # fmt: skip
        return keys.reshape(shape)
    rows = np.repeat(np.arange(len(bags)), [len(bag) for bag in bags])
    columns = [column for bag in bags for column in range(len(bag))]
    indices = np.stack([rows, np.array(columns, np.int64)], axis=1).astype(np.int64)
    return tf1.SparseTensorValue(indices, keys, np.array([len(bags), layer.keys_per_slot]))


def _per_sample(layer):
    return layer.slot_num * layer.keys_per_slot


def _with_key(layer, bags, key, more=1):
    """`bags` with one bag, or sample, before them that holds `key` and more keys as needed."""
    if layer.is_sparse:
        return [[key] * more] + [[]] * (layer.slot_num - 1) + bags
    return [[key]] * (1 if layer.is_dynamic else _per_sample(layer)) + bags


def _one(layer):
    """A sparse batch with a key in its first and its last row."""
    bags = [[FAULTY_KEY]] + [[]] * (layer.slot_num - 1)
    return value(layer, bags * 2)


# Name: (the batch from the layer and right bags, what the error must say). Sparse layers.
SPARSE_FAULTS = {
    "unsorted": (
        lambda layer, bags: (one := _one(layer))._replace(indices=one.indices[::-1].copy()),
        "must ascend",
    ),
    "row-too-large": (
        lambda layer, bags: (one := _one(layer))._replace(indices=one.indices + [[0, 0], [BIG, 0]]),
        "row index",
    ),
    "negative-row": (
        lambda layer, bags: (one := _one(layer))._replace(indices=one.indices - [[1, 0], [0, 0]]),
        "row index -1",
    ),
    "lowest-row": (
        lambda layer, bags: _one(layer)._replace(indices=np.array([[-(2**63), 0], [0, 0]])),
        "row index",
    ),
    "more-keys-than-indices": (
        lambda layer, bags: (one := _one(layer))._replace(indices=one.indices[:1]),
        "number of keys|same length|row_splits",
    ),
    "fewer-keys-than-indices": (
        lambda layer, bags: (one := _one(layer))._replace(values=one.values[:1]),
        "number of keys|same length|row_splits",
    ),
    "no-values": (
        lambda layer, bags: (one := _one(layer))._replace(values=one.values[:0]),
        "number of keys|same length|row_splits",
    ),
    "rank-1": (
        lambda layer, bags: tf1.SparseTensorValue(
            np.array([[0]]), np.array([FAULTY_KEY], layer.key_dtype), np.array([layer.slot_num])
        ),
        "rank 2",
    ),
    "rank-3": (
        lambda layer, bags: tf1.SparseTensorValue(
            np.array([[0, 0, 0]]),
            np.array([1], layer.key_dtype),
            np.array([layer.slot_num, 1, 1]),
        ),
        "rank 2",
    ),
    "matrix-of-keys": (
        lambda layer, bags: (one := _one(layer))._replace(values=one.values[:, np.newaxis]),
        "keys|values",
    ),
    "flat-indices": (
        lambda layer, bags: (one := _one(layer))._replace(indices=one.indices[:, 0]),
        "indices|rank 2",
    ),
    "too-many-keys": (
        lambda layer, bags: value(layer, _with_key(layer, bags, 1, layer.keys_per_slot + 1)),
        "max_nnz",
    ),
    **{
        f"rows-{rows}": (
            lambda layer, bags, rows=rows: value(layer, [])._replace(
                dense_shape=np.array([rows, 1])
            ),
            "rows",
        )
        for rows in (-1, -(2**63), 2**63 - 1, 2**63 - 4, 2**63 - 24, 2**62, 2**44)
    },
}
DIRECT_FAULTS = {  # keys that a table without a hash table does not have
    **{
        f"key-{name}": (
            lambda layer, bags, key=key: value(
                layer, _with_key(layer, bags, key(layer, np.iinfo(layer.key_dtype)))
            ),
            "key ",
        )
        for name, key in {
            "capacity": lambda layer, limits: min(layer.capacity, limits.max),
            "lowest": lambda layer, limits: limits.min or limits.max,
            "largest": lambda layer, limits: limits.max,
            "next-to-lowest": lambda layer, limits: limits.min + 1 if limits.min else limits.max,
        }.items()
    },
}
FEED_FAULTS = {  # refused by TensorFlow before the layer sees them
    "fed-text": (lambda layer, bags: _with_keys(layer, bags, ["text"]), "text|int"),
    "fed-none": (lambda layer, bags: None, "None|feed|Cannot"),
    "fed-huge": (lambda layer, bags: _with_keys(layer, bags, [2**70]), "int|large|Over"),
}
if np.lib.NumpyVersion(np.__version__) < "2.0.0":  # later TensorFlow makes an integer of it
    FEED_FAULTS["fed-nan"] = (
        lambda layer, bags: _with_keys(layer, bags, [float("nan")]),
        "NaN|integer",
    )
FAULTS = {**SPARSE_FAULTS, **DIRECT_FAULTS, **FEED_FAULTS}


def _with_keys(layer, bags, keys):
    """Keys that are no integers of the layer's dtype, as Python values."""
    if layer.is_sparse:
        return np.array([[0, 0]]), keys, np.array([layer.slot_num, 1])
    return keys


def faults_of(layer):
    """The names of the faults that a batch of this layer can have."""
    names = [*(SPARSE_FAULTS if layer.is_sparse else ()), *FEED_FAULTS]
    if not layer.use_hashtable and layer.capacity <= np.iinfo(layer.key_dtype).max:
        names += DIRECT_FAULTS
    return names


# Name: (what is called, what the error must say). When the graph is built.
WRONG_SPARSE_CALLS = {
    "dense": (lambda layer: {"inputs": tf.constant([[1]], layer.key_dtype)}, "SparseTensor"),
    "list": (lambda layer: {"inputs": [[1, 2], [3, 4]]}, "SparseTensor"),
    "numpy": (lambda layer: {"inputs": np.array([[1, 2]])}, "SparseTensor"),
    "ragged": (lambda layer: {"inputs": tf.ragged.constant([[1.0], []])}, "keys must be"),
    "sparse-value": (lambda layer: {"inputs": _one(layer)}, "SparseTensor"),
    "sparse-rank-1": (
        lambda layer: {"inputs": tf.SparseTensor([[0]], _keys(layer), [1])}, "rank 2"
    ),
    "sparse-rank-3": (
        lambda layer: {"inputs": tf.SparseTensor([[0, 0, 0]], _keys(layer), [1, 1, 1])}, "rank 2"
    ),
    **{
        f"sparse-of-{dtype.name}": (
            lambda layer, dtype=dtype: {
                "inputs": tf.SparseTensor([[0, 0]], tf.zeros([1], dtype), [1, 1])
            },
            "keys must be",
        )
        for dtype in (tf.int16, tf.uint64, tf.float32, tf.string, tf.bool)
    },
}  # fmt: skip
WRONG_DENSE_CALLS = {
    "sparse": (
        lambda layer: {"inputs": tf.SparseTensor([[0, 0]], _keys(layer), [1, 1])}, "keys|inputs"
    ),
    "ragged": (lambda layer: {"inputs": tf.ragged.constant([[1], []])}, "keys|inputs"),
    "text": (lambda layer: {"inputs": "text"}, "keys|inputs"),
    "list-of-floats": (lambda layer: {"inputs": [[float("nan"), 1.0]]}, "keys|inputs"),
    "object": (lambda layer: {"inputs": np.array([object()])}, "got <object"),
    **{
        f"of-{dtype.name}": (
            lambda layer, dtype=dtype: {
                "inputs": tf.zeros([2] if layer.is_dynamic else [2, layer.slot_num,
                                                                layer.keys_per_slot], dtype)
            },
            "keys must be",
        )
        for dtype in (tf.uint64, tf.float32, tf.string, tf.bool, tf.int16)
    },
}  # fmt: skip
WRONG_SLOTS = {  # of a layer whose input is not dynamic
    "shape": (lambda layer: {"inputs": tf.zeros([1, 5, 5], layer.key_dtype)}, "shape")
}
WRONG_TRAINING = {
    f"training-{name}": (
        lambda layer, make=make: {"inputs": placeholder(layer), "training": make()}, "training"
    )
    for name, make in {
        "text": lambda: "False",
        "2": lambda: 2,
        "nan": lambda: float("nan"),
        "list": lambda: [],
        "array": lambda: np.array([True, False]),
    }.items()
}  # fmt: skip
NO_INPUTS = {
    "none": (lambda layer: {"inputs": None}, "SparseTensor|None values"),
    "nothing": (lambda layer: {}, "first argument"),
    "dict": (lambda layer: {"inputs": {}}, "inputs|SparseTensor|keys"),
}
WRONG_CALLS = {
    **WRONG_SPARSE_CALLS,
    **WRONG_DENSE_CALLS,
    **WRONG_SLOTS,
    **WRONG_TRAINING,
    **NO_INPUTS,
}


def wrong_calls_of(layer):
    """{name: as above} of the wrong calls of this layer."""
    own = WRONG_SPARSE_CALLS if layer.is_sparse else WRONG_DENSE_CALLS
    if not (layer.is_sparse or layer.is_dynamic):
        own = {**own, **WRONG_SLOTS}
    return {**own, **WRONG_TRAINING, **NO_INPUTS}


def _keys(layer):
    return tf.ones([1], tf.as_dtype(layer.key_dtype))
