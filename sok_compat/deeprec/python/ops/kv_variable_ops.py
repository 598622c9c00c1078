# SPDX-License-Identifier: Apache-2.0
"""`tensorflow.python.ops.kv_variable_ops`, a module of DeepRec alone: its class of variables."""

from sok_compat.deeprec.variables.embedding_variable import EmbeddingVariable

__all__ = ["EmbeddingVariable"]
