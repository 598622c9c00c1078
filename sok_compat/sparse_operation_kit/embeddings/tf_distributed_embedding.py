# SPDX-License-Identifier: Apache-2.0
"""`TFDistributedEmbedding`: rows of a plain TensorFlow variable."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from sok_compat.ranks.identity import current_ranks
from sok_compat.runtime.checked_values import checked_count
from sok_compat.runtime.known_words import KERAS_LAYER_WORDS, checks_words
from sok_compat.runtime.strategies import raise_under_several_replicas
from sok_compat.runtime.tf_versions import Variable, keras_3
from sok_compat.runtime.tf_versions import keras_of_layers as keras


class TFDistributedEmbedding(keras.layers.Layer):
    """Looks up rows by number in an ordinary variable. API of SparseOperationKit 1.x.

    In SparseOperationKit it shares the work of a lookup among the replicas of a tf.distribute
    strategy. Here it is for one process and one replica; for tables spread over processes use
    All2AllDenseEmbedding with Horovod.
    """

    @checks_words(KERAS_LAYER_WORDS)
    def __init__(
        self,
        vocabulary_size: int,
        embedding_vec_size: int,
        initializer: str | np.ndarray = "GlorotNormal",
        comm_options: Any = None,
        **kwargs: Any,
    ) -> None:
        """Makes the layer and its variable.

        Args:
          vocabulary_size: number of rows.
          embedding_vec_size: floats in a row.
          initializer: the name of a Keras initializer, or the rows themselves, an array
            [vocabulary_size, embedding_vec_size].
          comm_options: ignored; a single process does not communicate.
          **kwargs: for the Keras layer.

        Raises:
          RuntimeError: a tf.distribute strategy has several replicas.
          ValueError: a size is below 1, or initializer is neither a name nor rows of that shape.
        """
        raise_under_several_replicas("TFDistributedEmbedding")
        super().__init__(**kwargs)
        del comm_options
        shape = [
            checked_count("vocabulary_size", vocabulary_size, 1),
            checked_count("embedding_vec_size", embedding_vec_size, 1),
        ]
        rows: Any
        if isinstance(initializer, str):
            make_rows = keras.initializers.get(initializer)
            rows = lambda *_, **__: make_rows(shape, dtype=tf.float32)  # noqa: E731
        elif list(np.shape(initializer)) == shape:
            rows = initializer
        else:
            raise ValueError(
                "initializer must be the name of a Keras initializer, or rows of shape "
                f"[vocabulary_size, embedding_vec_size] = {shape}; got "
                f"{type(initializer).__name__} of shape {list(np.shape(initializer))}"
            )
        self._embedding_weights: Any = (
            Variable(rows, dtype=tf.float32, name="EmbeddingWeights")
            if keras_3 is None
            else keras_3.Variable(rows, shape, "float32", name="EmbeddingWeights")
        )

    @property
    def embedding_weights(self) -> tf.Variable:
        """The variable [vocabulary_size, embedding_vec_size]."""
        return self._embedding_weights if keras_3 is None else self._embedding_weights.value

    def broadcast_variables(self) -> None:
        """Does nothing, since there is only one copy.

        Raises:
          RuntimeError: there are several Horovod ranks, each with its own copy.
        """
        ranks = current_ranks()
        if ranks.size > 1:
            raise RuntimeError(
                f"each of the {ranks.size} ranks has its own {self._embedding_weights.name}: "
                "make them equal with hvd.broadcast_global_variables(0)"
            )

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Returns the rows [*inputs.shape, embedding_vec_size] of row numbers of any shape."""
        return tf.nn.embedding_lookup(self.embedding_weights, inputs)
