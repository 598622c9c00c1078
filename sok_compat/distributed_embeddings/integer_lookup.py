# SPDX-License-Identifier: Apache-2.0
"""`IntegerLookup`: a vocabulary that grows with the keys it meets, kept in the layer's weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from sok_compat.distributed_embeddings.python.ops.embedding_lookup_ops import Ids
from sok_compat.runtime.known_words import KERAS_LAYER_WORDS, checks_words
from sok_compat.runtime.tf_versions import NO_AUTOCAST, keras_3, variable_of
from sok_compat.runtime.tf_versions import keras_of_layers as keras

OUT_OF_VOCABULARY = -1  # a key that never gets an id
_SLOTS_PER_KEY = 1.5
_MIX = tf.int64.min + 0x1E3779B97F4A7C15  # an odd number: 2^64 over the golden ratio, as int64


class IntegerLookup(keras.layers.Layer):
    """Numbers integer keys 1, 2, ... in the order of their first use.

    API of distributed-embeddings. The id 0 stands for the key -1 and for new keys once the
    vocabulary is full. Every call adds to the vocabulary, also outside of training. The vocabulary
    belongs to this process, and is saved with the model.

    Attributes:
      max_tokens: most keys in the vocabulary.
      capacity: max_tokens + 1, the number of ids.
      use_gpu: as given; it makes no difference.
      table: int64 [slots, 2], the key and id in each slot of a hash table; a slot of id 0 is free.
      count: int64 [capacity], the number of occurrences of each id.
      num_tokens: int64, the number of keys in the vocabulary.
    """

    @checks_words(KERAS_LAYER_WORDS)
    def __init__(self, max_tokens: Any, use_gpu: bool = True, **kwargs: Any) -> None:
        """Makes the layer and its weights.

        Args:
          max_tokens: most keys in the vocabulary, an int >= 1 or a scalar tensor.
          use_gpu: makes no difference.
          **kwargs: for the Keras layer.

        Raises:
          ValueError: max_tokens is below 1.
        """
        super().__init__(**{**kwargs, "autocast": False})
        self.max_tokens = int(max_tokens)
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {self.max_tokens}")
        self.capacity = self.max_tokens + 1
        self.use_gpu = use_gpu
        self._num_slots = int(_SLOTS_PER_KEY * self.capacity)
        with tf.device("CPU:0"):
            self.table = self._add_integers("table", (self._num_slots, 2))
            self.count = self._add_integers("count", (self.capacity,))
            self.num_tokens = self._add_integers("num_tokens", ())

    def call(self, inputs: Ids) -> Ids:
        """Returns the ids of keys.

        Args:
          inputs: int32 or int64 keys: a tensor of any shape, a tf.RaggedTensor or a
            tf.SparseTensor.

        Returns:
          int64 ids in the form of the inputs.

        Raises:
          ValueError: keys of another dtype.
        """
        if isinstance(inputs, tf.RaggedTensor):
            return inputs.with_flat_values(self._ids_of(inputs.flat_values))
        if isinstance(inputs, tf.SparseTensor):
            ids = self._ids_of(inputs.values)
            return tf.SparseTensor(inputs.indices, ids, inputs.dense_shape)
        return self._ids_of(tf.convert_to_tensor(inputs))

    def get_vocabulary(self) -> list[int]:
        """Returns the key of each id; that of the id 0 is -1."""
        table = np.asarray(_array_of(self.table))
        used = table[table[:, 1] > 0]
        return [OUT_OF_VOCABULARY, *used[np.argsort(used[:, 1]), 0].tolist()]

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of `__init__`."""
        return {
            **super().get_config(),
            "max_tokens": self.max_tokens,
            "use_gpu": self.use_gpu,
        }

    def _add_integers(self, name, shape):
        weight = self.add_weight(
            name=name,
            shape=shape,
            dtype=tf.int64,
            initializer="zeros",
            trainable=False,
            **NO_AUTOCAST,
        )
        return variable_of(weight)

    def _ids_of(self, keys):
        if keys.dtype not in (tf.int32, tf.int64):
            raise ValueError(f"{self.name}: keys must be int64 or int32, got {keys.dtype.name}")
        keys = tf.cast(keys, tf.int64)
        with tf.device("CPU:0"):
            ids = self._look_up(tf.reshape(keys, [-1]))
        ids = tf.reshape(ids, tf.shape(keys))
        ids.set_shape(keys.shape)
        return ids

    # A function also in graphs, where it keeps the steps in order.
    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)], autograph=False)
    def _look_up(self, keys):
        distinct, places, counts = tf.unique_with_counts(keys, tf.int64)
        ids = self._find(distinct)
        is_new = tf.equal(ids, 0) & tf.not_equal(distinct, OUT_OF_VOCABULARY)
        positions = tf.where(is_new)[: self.max_tokens - self.num_tokens]
        num_new = tf.shape(positions, tf.int64)[0]
        new_ids = self.num_tokens + 1 + tf.range(num_new)
        self._insert(tf.gather(distinct, positions[:, 0]), new_ids)
        self.num_tokens.assign_add(num_new)
        ids = tf.tensor_scatter_nd_update(ids, positions, new_ids)
        self.count.scatter_add(tf.IndexedSlices(counts, ids))
        return tf.gather(ids, places)

    def _find(self, keys):
        """The ids of distinct keys; 0 for keys that are not in the table."""

        def look_into_slots(ids, pending, slots):
            stored = tf.gather(self.table, slots)
            is_there = tf.equal(stored[:, 0], tf.gather(keys, pending)) & (stored[:, 1] > 0)
            found = tf.where(is_there)
            ids = tf.tensor_scatter_nd_update(
                ids, tf.gather(pending, found), tf.gather_nd(stored[:, 1], found)
            )
            goes_on = (stored[:, 1] > 0) & ~is_there
            return ids, pending[goes_on], self._next(slots[goes_on])

        start = tf.zeros_like(keys), tf.range(tf.size(keys, tf.int64)), self._home(keys)
        ids, _, _ = tf.while_loop(
            lambda ids, pending, slots: tf.size(pending) > 0,
            look_into_slots,
            start,
            shape_invariants=_VECTORS,
        )
        return ids

    def _insert(self, keys, ids):
        """Puts new keys into the first free slot from their home on."""

        def write_to_slots(keys, ids, slots):
            is_free = tf.equal(tf.gather(self.table, slots)[:, 1], 0)
            wins = is_free & _are_first(tf.where(is_free, slots, -1))
            entries = tf.stack([keys[wins], ids[wins]], axis=1)
            self.table.scatter_update(tf.IndexedSlices(entries, slots[wins]))
            return keys[~wins], ids[~wins], self._next(slots[~wins])

        tf.while_loop(
            lambda keys, ids, slots: tf.size(keys) > 0,
            write_to_slots,
            (keys, ids, self._home(keys)),
            shape_invariants=_VECTORS,
        )

    def _home(self, keys):
        mixed = keys * tf.constant(_MIX, tf.int64)
        mixed = tf.bitwise.bitwise_xor(mixed, tf.bitwise.right_shift(mixed, 32))
        return tf.math.floormod(mixed, self._num_slots)

    def _next(self, slots):
        return tf.math.floormod(slots + 1, self._num_slots)


_VECTORS = (tf.TensorShape([None]),) * 3


def _are_first(values):
    """Whether each value occurs for the first time."""
    places = tf.range(tf.size(values))
    distinct, numbers = tf.unique(values)
    firsts = tf.math.unsorted_segment_min(places, numbers, tf.size(distinct))
    return tf.equal(tf.gather(firsts, numbers), places)


def _array_of(variable: tf.Variable) -> np.ndarray:
    return keras.backend.get_value(variable) if keras_3 is None else variable.numpy()
