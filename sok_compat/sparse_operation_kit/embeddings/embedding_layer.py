# SPDX-License-Identifier: Apache-2.0
"""The base of both embedding layers, with the table, its handle and the configuration."""

from __future__ import annotations

from typing import Any, Callable

import tensorflow as tf

from sok_compat.runtime.checked_values import checked_count
from sok_compat.runtime.tf_versions import is_evaluated_by_model, keras_3
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from sok_compat.sparse_operation_kit.core.embedding_variable import EmbeddingVariable
from sok_compat.sparse_operation_kit.core.initialization import current_initialization
from sok_compat.sparse_operation_kit.embeddings.arguments import (
    checked_compute_dtype,
    checked_flag,
    checked_layer_arguments,
)
from sok_compat.tables.first_value import Initializer
from sok_compat.tables.slots.keras_3_tables import TableVariable
from sok_compat.tables.table_arguments import checked_key_dtype

_INPUTS_OF_KERAS_3 = "keras.src.backend.common.keras_tensor"


class EmbeddingLayer(keras.layers.Layer):
    """A Keras layer that owns one table, made in `__init__`."""

    def __init__(
        self,
        max_vocabulary_size_per_gpu: int,
        embedding_vec_size: int,
        slot_num: int,
        use_hashtable: bool,
        key_dtype: tf.DType | str | None,
        embedding_initializer: Initializer,
        **kwargs: Any,
    ) -> None:
        current_initialization(type(self).__name__)
        # After tf.compat.v1.disable_v2_behavior() a layer's dtype defaults to that of its inputs.
        if keras_3 is None and keras.mixed_precision.global_policy().compute_dtype is None:
            kwargs.setdefault("dtype", "float32")
        try:
            super().__init__(**checked_layer_arguments(kwargs))
            checked_compute_dtype(self.compute_dtype)
        except TypeError as error:  # Keras's own error does not name the argument
            raise TypeError(f"{type(self).__name__} cannot take {kwargs}: {error}") from error
        self.max_vocabulary_size_per_gpu = checked_count(
            "max_vocabulary_size_per_gpu", max_vocabulary_size_per_gpu, 1
        )
        self.embedding_vec_size = checked_count("embedding_vec_size", embedding_vec_size, 1)
        self.slot_num = checked_count("slot_num", slot_num, 1)
        self.use_hashtable = checked_flag("use_hashtable", use_hashtable)
        self.key_dtype = checked_key_dtype(key_dtype)
        self.embedding_initializer = embedding_initializer
        self.var = EmbeddingVariable.CreateInstances(
            shape=[self.max_vocabulary_size_per_gpu, self.embedding_vec_size],
            initializer=embedding_initializer,
            use_hashtable=self.use_hashtable,
            key_dtype=self.key_dtype,
            trainable=self.trainable,
        )
        if keras_3 is not None:
            self.supports_jit = False  # XLA does not know tables
            self.rows = TableVariable(self.var)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls `call`; Keras 2 tells the layers of any model whether it trains, Keras 3 only those
        of one whose `call` takes `training`. Keras 3 takes no inputs of an unknown rank."""
        if keras_3 is None:
            if type(args[0] if args else None).__module__ == _INPUTS_OF_KERAS_3:
                raise TypeError(
                    f"{self.name} is a layer of Keras 2, as tf-keras is installed, and its inputs "
                    "are of Keras 3: set TF_USE_LEGACY_KERAS=1 before TensorFlow is imported, so "
                    "that tf.keras is Keras 2, or uninstall tf-keras"
                )
            return super().__call__(*args, **kwargs)
        if is_evaluated_by_model():
            kwargs.setdefault("training", False)
        shapes = [getattr(given, "shape", None) for given in (*args, *kwargs.values())]
        if any(isinstance(shape, tf.TensorShape) and shape.rank is None for shape in shapes):
            with tf.name_scope(self.name):
                return self.call(*args, **kwargs)
        return super().__call__(*args, **kwargs)

    def set_handle(self, make_handle: Callable[..., Any], **settings: Any) -> None:
        """Makes `emb_layer`, the handle by which lookups know this layer; once, in `__init__`."""
        self.emb_layer = make_handle(
            self.var,
            slot_num=self.slot_num,
            compute_dtype=self.compute_dtype,
            name=self.name,
            **settings,
        )
        self.var.set_embedding_layer(self.emb_layer)

    @property
    def embedding_variable(self) -> EmbeddingVariable:
        """The layer's EmbeddingVariable."""
        return self.var

    def build(self, input_shape: Any) -> None:
        """Does nothing, since the table is made in `__init__`."""
        del input_shape
        self.built = True

    def save_own_variables(self, store: Any) -> None:
        """Saves rows in Keras's `.keras` and `.weights.h5` files, where row n is that of key n.

        Raises:
          NotImplementedError: with a hash table, or on several ranks, row n may be any key's.
        """
        self._raise_for_files()
        super().save_own_variables(store)

    def load_own_variables(self, store: Any) -> None:
        """As save_own_variables."""
        self._raise_for_files()
        super().load_own_variables(store)

    def _raise_for_files(self):
        if not self.use_hashtable and self.var.ranks.size == 1:
            return
        by_keras = "" if keras_3 else "model.save_weights with a path without an ending, "
        raise NotImplementedError(
            f"Keras's files do not hold the table {self.var.m_var_name} of the layer {self.name}: "
            f"use {by_keras}tf.train.Checkpoint, or, for the table alone, sok.Saver"
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of `__init__`."""
        return {
            **super().get_config(),
            "max_vocabulary_size_per_gpu": self.max_vocabulary_size_per_gpu,
            "embedding_vec_size": self.embedding_vec_size,
            "slot_num": self.slot_num,
            "use_hashtable": self.use_hashtable,
            "key_dtype": self.key_dtype.name,
            "embedding_initializer": keras.initializers.serialize(self.embedding_initializer)
            if callable(self.embedding_initializer)
            else self.embedding_initializer,
        }
