# SPDX-License-Identifier: Apache-2.0
"""`Saver`: tables to SparseOperationKit's files and back. The module's name is that of its API."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from sok_compat.checkpoint.streams import key_files
from sok_compat.sparse_operation_kit.core.embedding_variable import EmbeddingVariable
from sok_compat.tables.table import Table


class Saver:
    """Dumps, restores and loads tables. API and file format of SparseOperationKit 1.x.

    `<dir>/<m_var_name>_keys.file` holds the keys, int64 or uint32 according to the table's
    key_dtype, and `<dir>/<m_var_name>_values.file` the rows in the same order, float32. Both are
    little-endian, without a header. They do not contain slots of optimizers.
    """

    def dump_to_file(
        self, embedding_variable: EmbeddingVariable, filepath: str | os.PathLike | tf.Tensor
    ) -> tf.Tensor:
        """Writes the table's two files; without a hash table all rows, touched or not.

        Args:
          embedding_variable: the EmbeddingVariable.
          filepath: a folder, as str, path or string tensor; made if need be. A complete new dump
            replaces an earlier one atomically: `<m_var_name>.dump`, a file that SparseOperationKit
            does not have, describes the valid files.

        Returns:
          A scalar string tensor, b'saved.', to be run on all ranks. Rank 0 writes; its errors are
          raised on all ranks: PermissionDeniedError, ResourceExhaustedError (no space),
          UnknownError.
        """
        variable = _checked_variable(embedding_variable)
        return _after(key_files.dump_to_files(variable, filepath), b"saved.")

    def restore_from_file(
        self,
        embedding_variable: EmbeddingVariable,
        filepath: str | os.PathLike | tf.Tensor,
        name: str | None = None,
    ) -> tf.Tensor:
        """Replaces the contents of the table by those of the two files.

        Keys may have been written by any number of ranks, as int64 or uint32.

        Args:
          embedding_variable: the EmbeddingVariable, initialized; its contents are lost.
          filepath: the folder, as str, path or string tensor.
          name: the m_var_name of the dumped table, if it is not this table's.

        Returns:
          A scalar string tensor, b'restored.', to be run on all ranks. If it fails on one rank, it
          fails on all, and leaves the table as it was: NotFoundError (a file is missing; names the
          tables whose files are there), DataLossError (a file has changed since it was written),
          InvalidArgumentError (a file has the wrong size, or a key is repeated or out of range,
          also of the key_dtype), ResourceExhaustedError (more keys than the capacity).
        """
        variable = _checked_variable(embedding_variable)
        return _after(key_files.restore_from_files(variable, filepath, name), b"restored.")

    def load_embedding_values(
        self,
        embedding_variable: EmbeddingVariable,
        tensors: tf.Tensor | list[tf.Tensor] | tuple[tf.Tensor, ...],
    ) -> tf.Tensor:
        """Replaces the contents of the table by the keys 0..n-1 with the given rows.

        Args:
          embedding_variable: the EmbeddingVariable, initialized; its contents are lost.
          tensors: float32 [n, dim], or a list or tuple of such, joined along the first axis.

        Returns:
          A scalar string tensor, b'loaded.', to be run. It fails, and leaves the table as it was,
          if the shape does not fit or n exceeds the capacity.
        """
        variable = _checked_variable(embedding_variable)
        return _after(key_files.set_rows(variable, tensors), b"loaded.")


def _checked_variable(variable: Any) -> Any:
    if not isinstance(variable, Table):
        raise TypeError(
            f"sok.Saver works on EmbeddingVariable, got {type(variable).__name__}; save other "
            "variables with tf.train.Saver"
        )
    return variable


def _after(op: tf.Operation, status: bytes) -> tf.Tensor:
    with tf.control_dependencies([op]):
        return tf.constant(status)
