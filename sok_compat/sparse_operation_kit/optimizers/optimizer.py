# SPDX-License-Identifier: Apache-2.0
"""`Optimizer`: the base class of optimizers for tables only."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from sok_compat.runtime.tf_versions import keras_optimizers
from sok_compat.sparse_operation_kit.core.graph_keys import GraphKeys
from sok_compat.tables.table import Table


class Optimizer(keras_optimizers.legacy.Optimizer):
    """A Keras 2 optimizer that trains tables only. API of SparseOperationKit 1.x.

    A subclass makes its state in `_create_slots` and updates rows in
    `_resource_apply_sparse_duplicate_indices`, like any Keras optimizer. Each optimizer is in its
    graph's collection GraphKeys.SparseOperationKitOptimizer.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Makes it, and adds it to the collection.

        Args:
          *args, **kwargs: of the next base class, by default Keras's Optimizer.
        """
        super().__init__(*args, **kwargs)
        if not tf.executing_eagerly():
            tf.compat.v1.add_to_collection(GraphKeys.SparseOperationKitOptimizer, self)

    @property
    def initializer(self) -> tf.Operation | None:
        """An op that initializes the states made so far, like global_variables_initializer.

        None in eager mode, where new states are already initialized.
        """
        if tf.executing_eagerly():
            return None
        return tf.group(*(variable.initializer for variable in self.variables()))

    def _create_slots(self, var_list):
        for variable in var_list:
            if not isinstance(variable, Table):
                raise ValueError(
                    f"sok.optimizers.{type(self).__name__} trains EmbeddingVariables only, got "
                    f"{variable.name}; split the variables with "
                    "sok.split_embedding_variable_from_others"
                )
        super()._create_slots(var_list)

    def get_config(self) -> dict[str, Any]:
        """Not available, as in SparseOperationKit.

        Raises:
          NotImplementedError: always.
        """
        raise NotImplementedError(
            f"sok.optimizers.{type(self).__name__} has no config: make a new one with its arguments"
        )
