# SPDX-License-Identifier: Apache-2.0
"""SparseOperationKit's raw ops, as far as they make sense without its native library."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import tensorflow as tf

from sok_compat.runtime.devices import is_on_gpu
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.seeds import draw_seed
from sok_compat.runtime.tf_versions import is_eager_disabled
from sok_compat.sparse_operation_kit.core.embedding_variable import EmbeddingVariable
from sok_compat.sparse_operation_kit.refused_ops import REFUSED
from sok_compat.sparse_operation_kit.saver.Saver import Saver


def in_tensorflow2() -> bool:
    """Returns whether TensorFlow 2 behaviour is on. API of SparseOperationKit 1.x.

    It is off after disable_v2_behavior or disable_eager_execution.
    """
    return not is_eager_disabled()


def gen_random_seed(seed: int = 0) -> tf.Tensor:
    """Returns `seed` as int64 [1]; for 0 a random number in [1, 2**62], a new one in each run.

    API of SparseOperationKit 1.x.

    Args:
      seed: an int; 0: a random one.
    """
    if seed:
        return tf.constant([seed], tf.int64)
    drawn = tf.numpy_function(lambda: np.array([draw_seed()]), [], tf.int64)
    drawn.set_shape([1])
    return drawn


def read_embedding_variable(
    resource: tf.Tensor,
    tf_resource: tf.Tensor,
    dtype: tf.DType = tf.float32,
    unique_var_name: str = "",
) -> tf.Tensor:
    """Returns the rows [capacity, dim] of the table `resource`, like its variable's value().

    API of SparseOperationKit 1.x.

    Args:
      resource: `emb_handle` of an EmbeddingVariable.
      tf_resource: its `tf_handle`.
      dtype: float32.
      unique_var_name: ignored.

    Raises:
      ValueError: dtype is not float32.
    """
    del unique_var_name
    if tf.as_dtype(dtype) != tf.float32:
        raise ValueError(f"rows are float32, got dtype {tf.as_dtype(dtype).name}; use tf.cast")
    return ops.sok_read_rows(tf_resource, resource)


def embedding_variable_assign_sub(
    emb_var_handle: tf.Tensor, tf_var_handle: tf.Tensor, value: tf.Tensor
) -> tf.Operation:
    """Returns the op that subtracts `value` [capacity, dim] from all rows of `tf_var_handle`.

    API of SparseOperationKit 1.x.

    Args:
      emb_var_handle: `emb_handle` of an EmbeddingVariable.
      tf_var_handle: its `tf_handle`.
      value: float32 [capacity, dim].
    """
    table = EmbeddingVariable.of_handle(emb_var_handle)
    if table is not None and is_on_gpu(table):
        return table.assign_sub(value, read_value=False)
    return tf.raw_ops.AssignSubVariableOp(resource=tf_var_handle, value=value)


def dump_to_file(emb_var_handle: tf.Tensor, filepath: str | os.PathLike | tf.Tensor) -> tf.Tensor:
    """As sok.Saver().dump_to_file, for the variable with that `emb_handle`.

    API of SparseOperationKit 1.x.

    Args:
      emb_var_handle: `emb_handle` of an EmbeddingVariable.
      filepath: the folder.
    """
    return Saver().dump_to_file(_variable_of(emb_var_handle), filepath)


def restore_from_file(
    emb_var_handle: tf.Tensor, filepath: str | os.PathLike | tf.Tensor
) -> tf.Tensor:
    """As sok.Saver().restore_from_file, for the variable with that `emb_handle`.

    API of SparseOperationKit 1.x.

    Args:
      emb_var_handle: `emb_handle` of an EmbeddingVariable.
      filepath: the folder.
    """
    return Saver().restore_from_file(_variable_of(emb_var_handle), filepath)


def load_embedding_values(
    emb_var_handle: tf.Tensor,
    embedding_values: tf.Tensor | list[tf.Tensor] | tuple[tf.Tensor, ...],
) -> tf.Tensor:
    """As sok.Saver().load_embedding_values, for the variable with that `emb_handle`.

    API of SparseOperationKit 1.x.

    Args:
      emb_var_handle: `emb_handle` of an EmbeddingVariable.
      embedding_values: float32 [rows, dim], or a list of tensors that together have these rows.
    """
    return Saver().load_embedding_values(_variable_of(emb_var_handle), embedding_values)


def _variable_of(handle: Any) -> EmbeddingVariable:
    variable = EmbeddingVariable.of_handle(handle)
    if variable is None:
        raise ValueError(
            f"{handle!r} is not the emb_handle of an existing EmbeddingVariable; sok.Saver "
            "takes the variable itself"
        )
    return variable


def _refused(name, why, instead):
    def raise_not_implemented(*args, **kwargs):
        del args, kwargs
        raise NotImplementedError(f"sok.kit_lib.{name} does not exist here: {why}. {instead}")

    raise_not_implemented.__name__ = raise_not_implemented.__qualname__ = name
    raise_not_implemented.__doc__ = f"Raises NotImplementedError: {why}. {instead}."
    return raise_not_implemented


for _name, _reason in REFUSED.items():
    globals()[_name] = _refused(_name, *_reason)

__all__ = [
    "dump_to_file",
    "embedding_variable_assign_sub",
    "gen_random_seed",
    "in_tensorflow2",
    "load_embedding_values",
    "read_embedding_variable",
    "restore_from_file",
]
__all__.extend(REFUSED)
