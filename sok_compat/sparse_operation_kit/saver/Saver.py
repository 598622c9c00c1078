# SPDX-License-Identifier: Apache-2.0
"""`Saver`: tables to SparseOperationKit's files and back. The module's name is that of its API."""

import tensorflow as tf

from sok_compat.checkpoint import key_files
from sok_compat.tables.table import Table


class Saver:
    """Dumps, restores and loads tables. API and file format of SparseOperationKit 1.x.

    `<dir>/<m_var_name>_keys.file` holds the keys, int64 or uint32 by the table's key_dtype, and
    `<dir>/<m_var_name>_values.file` the rows in the same order, float32; both little-endian,
    without a header. Slots of optimizers are not in them.
    """

    def dump_to_file(self, embedding_variable, filepath):
        """Writes the table's two files; without a hash table all rows, touched or not.

        Args:
          embedding_variable: the EmbeddingVariable.
          filepath: a folder, str, path or string tensor; made if need be. An earlier dump is
            replaced in one instant once the new one is complete: `<m_var_name>.dump` beside the
            files says what they are, and is what SparseOperationKit does without.

        Returns:
          A scalar string tensor: run it, on all ranks. Its value is b'saved.'. Running it raises on
          all ranks what it raises on rank 0, which writes: PermissionDeniedError,
          ResourceExhaustedError (no space), UnknownError.
        """
        variable = _checked_variable(embedding_variable)
        return _after(key_files.dump_to_files(variable, filepath), b"saved.")

    def restore_from_file(self, embedding_variable, filepath, name=None):
        """Makes the table hold exactly what the two files hold.

        Keys may have been written by any number of ranks, as int64 or uint32.

        Args:
          embedding_variable: the EmbeddingVariable, initialized; what it held is forgotten.
          filepath: the folder, str, path or string tensor.
          name: the m_var_name of the table that was dumped, where it is another than this one's.

        Returns:
          A scalar string tensor: run it, on all ranks. Its value is b'restored.'. Running it
          raises, and leaves the table as it was on all ranks, when on one of them a file is missing
          (NotFoundError, naming other tables whose files are there), is not as it was written
          (DataLossError), has a wrong size, a key appears twice or is out of range, also of the
          key_dtype (InvalidArgumentError), or the keys are more than the capacity
          (ResourceExhaustedError).
        """
        variable = _checked_variable(embedding_variable)
        return _after(key_files.restore_from_files(variable, filepath, name), b"restored.")

    def load_embedding_values(self, embedding_variable, tensors):
        """Makes the table hold the keys 0..n-1 with the given rows.

        Args:
          embedding_variable: the EmbeddingVariable, initialized; what it held is forgotten.
          tensors: float32 [n, dim], or a list or tuple of such, joined along the first axis.

        Returns:
          A scalar string tensor: run it. Its value is b'loaded.'. Running it raises, and leaves the
          table as it was, when the shape does not fit or n is more than the capacity.
        """
        variable = _checked_variable(embedding_variable)
        return _after(key_files.set_rows(variable, tensors), b"loaded.")


def _checked_variable(variable):
    if not isinstance(variable, Table):
        raise TypeError(
            f"sok.Saver works on EmbeddingVariable, got {type(variable).__name__}; save other "
            "variables with tf.train.Saver"
        )
    return variable


def _after(op, status):
    with tf.control_dependencies([op]):
        return tf.constant(status)
