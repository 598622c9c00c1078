# SPDX-License-Identifier: Apache-2.0
"""The embedding layers in all their kinds: each makes its layer, its batches and its reference."""

import dataclasses
import itertools

import numpy as np
import tensorflow as tf

import sok_compat as sok
from tests.support.bags import random_bags, sparse_value

SLOT_NUM = 2
MAX_NNZ = 3
DYNAMIC_KEYS = 2  # keys of a sample where input is dynamic
NUM_KEYS = 48
EXTREME_KEYS = {
    "int64": [0, -1, 1, -(2**63), 2**63 - 1, 2**32, -(2**32)],
    "uint32": [0, 1, 2**31, 2**32 - 1],
}
INPUTS = ("sum", "mean", "static", "dynamic")


@dataclasses.dataclass(frozen=True)
class LayerCase:
    """One kind of layer. `input`: the combiner of a sparse layer, or the shape of a dense one."""

    input: str
    use_hashtable: bool
    key_dtype: str
    dim: int = 4
    max_nnz: int = MAX_NNZ

    def __str__(self):
        return f"{self.input}-{'hash' if self.use_hashtable else 'direct'}-{self.key_dtype}"

    @property
    def is_sparse(self):
        return self.input in ("sum", "mean")

    @property
    def keys_per_sample(self):
        return DYNAMIC_KEYS if self.input == "dynamic" else SLOT_NUM * self.max_nnz

    @property
    def features_per_sample(self):
        return (SLOT_NUM if self.is_sparse else self.keys_per_sample) * self.dim

    @property
    def numpy_dtype(self):
        return np.dtype(self.key_dtype)

    def make_layer(self, capacity=NUM_KEYS, **kwargs):
        options = dict(
            max_vocabulary_size_per_gpu=capacity,
            embedding_vec_size=self.dim,
            slot_num=SLOT_NUM,
            use_hashtable=self.use_hashtable,
            key_dtype=self.key_dtype,
            **kwargs,
        )
        if self.is_sparse:
            return sok.DistributedEmbedding(combiner=self.input, max_nnz=self.max_nnz, **options)
        is_dynamic = self.input == "dynamic"
        return sok.All2AllDenseEmbedding(
            nnz_per_slot=self.max_nnz, dynamic_input=is_dynamic, **options
        )

    def keys(self, rng):
        """NUM_KEYS different keys that the layer takes."""
        if not self.use_hashtable:
            return list(range(NUM_KEYS))
        limits = np.iinfo(self.numpy_dtype)
        keys = dict.fromkeys(EXTREME_KEYS[self.key_dtype])
        while len(keys) < NUM_KEYS:
            keys[int(rng.integers(limits.min, limits.max, dtype=self.numpy_dtype.type))] = None
        return list(keys)

    def batch(self, rng, batch_size, keys):
        """Random keys, in the layer's form, as a NumPy value."""
        if self.is_sparse:
            bags = random_bags(rng, batch_size * SLOT_NUM, self.max_nnz, keys)
            return sparse_value(bags, self.max_nnz, self.numpy_dtype)
        shape = [batch_size, self.keys_per_sample]
        places = np.minimum(rng.integers(0, len(keys), shape), rng.integers(0, len(keys), shape))
        return self.dense_value(np.array(keys, self.numpy_dtype)[places])

    def dense_value(self, keys):
        return np.reshape(keys, [-1] if self.input == "dynamic" else [-1, SLOT_NUM, self.max_nnz])

    def placeholder(self, key_dtype=None):
        """What a batch is fed to; `key_dtype` in place of the layer's."""
        dtype = tf.as_dtype(key_dtype or self.key_dtype)
        if self.is_sparse:
            return tf.compat.v1.sparse_placeholder(dtype, [None, self.max_nnz])
        shape = [None] if self.input == "dynamic" else [None, SLOT_NUM, self.max_nnz]
        return tf.compat.v1.placeholder(dtype, shape)

    def reference(self, rows, ids):
        """Plain TensorFlow's lookup of the same batch, from `rows` by row number."""
        if not self.is_sparse:
            return tf.nn.embedding_lookup(rows, ids)
        pooled = tf.nn.embedding_lookup_sparse(rows, ids, None, combiner=self.input)
        missing = ids.dense_shape[0] - tf.shape(pooled, out_type=tf.int64)[0]  # trailing empty bags
        padded = tf.pad(pooled, [[0, missing], [0, 0]])
        return tf.reshape(padded, [-1, SLOT_NUM, self.dim])

    def rows_of(self, layer, keys):
        """[len(keys), dim]: a lookup of single keys that inserts none."""
        per_sample = SLOT_NUM if self.is_sparse else self.keys_per_sample
        num_samples = -(-len(keys) // per_sample)
        padded = (list(keys) + [keys[0]] * per_sample)[: num_samples * per_sample]
        if self.is_sparse:
            value = sparse_value([[key] for key in padded], self.max_nnz, self.numpy_dtype)
            inputs = tf.SparseTensor(value.indices, value.values, value.dense_shape)
        else:
            inputs = tf.constant(self.dense_value(np.array(padded, self.numpy_dtype)))
        output = layer(inputs, training=False)
        return tf.reshape(output, [-1, self.dim])[: len(keys)]


def replace_keys(batch, function):
    """The batch with `function` of its keys (an array) in their place."""
    if isinstance(batch, tf.compat.v1.SparseTensorValue):
        return batch._replace(values=function(batch.values))
    return function(batch.reshape(-1)).reshape(batch.shape)


ALL_CASES = [
    LayerCase(inputs, use_hashtable, key_dtype, dim)
    for (inputs, use_hashtable, key_dtype), dim in zip(
        itertools.product(INPUTS, (True, False), ("int64", "uint32")),
        itertools.cycle((4, 3, 8, 5, 1)),
    )
]
