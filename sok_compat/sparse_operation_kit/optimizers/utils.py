# SPDX-License-Identifier: Apache-2.0
"""Helpers for training loops. The module's name is that of its API."""

from __future__ import annotations

import tensorflow as tf

from sok_compat.tables.table import Table


@tf.autograph.experimental.do_not_convert
def split_embedding_variable_from_others(
    variables: list[tf.Variable] | tuple[tf.Variable, ...],
) -> tuple[list[Table], list[tf.Variable]]:
    """Splits variables into tables and others. API of SparseOperationKit 1.x.

    Args:
      variables: list or tuple of variables.

    Returns:
      (embedding_variables, other_variables), two lists, each in the order of the input.

    Raises:
      ValueError: variables is neither a list nor a tuple.
    """
    if not isinstance(variables, (list, tuple)):
        raise ValueError(f"variables must be a list or tuple, got {type(variables).__name__}")
    tables = [v for v in variables if isinstance(v, Table)]
    others = [v for v in variables if not isinstance(v, Table)]
    return tables, others
