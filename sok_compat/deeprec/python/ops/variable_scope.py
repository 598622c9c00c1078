# SPDX-License-Identifier: Apache-2.0
"""DeepRec's addition to `tensorflow.python.ops.variable_scope`; other names are TensorFlow's."""

from __future__ import annotations

import copy
from typing import Any

from sok_compat.deeprec.namespace.additions import all_else_of
from sok_compat.deeprec.variables.embedding_variable import (
    EmbeddingVariable,
    PartitionedEmbeddingVariable,
)
from sok_compat.deeprec.variables.options import CounterFilter, EmbeddingVariableOption
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable as _get

__getattr__ = all_else_of(__name__)


def get_embedding_variable(
    *args: Any,
    ev_option: EmbeddingVariableOption | None = None,
    filter_options: CounterFilter | None = None,
    **kwargs: Any,
) -> EmbeddingVariable | PartitionedEmbeddingVariable:
    """As tf.get_embedding_variable.

    Args:
      *args, **kwargs: its other arguments.
      ev_option: an EmbeddingVariableOption; None: the defaults.
      filter_options: of PAI-TensorFlow, DeepRec's predecessor: the filter of the option.
    """
    if filter_options is not None:
        ev_option = EmbeddingVariableOption() if ev_option is None else copy.copy(ev_option)
        ev_option.filter_strategy = filter_options
    kwargs["ev_option"] = ev_option
    return _get(*args, **kwargs)
