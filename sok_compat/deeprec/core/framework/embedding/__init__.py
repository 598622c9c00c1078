# SPDX-License-Identifier: Apache-2.0
"""`tensorflow.core.framework.embedding`, which only DeepRec has."""

from sok_compat.deeprec.core.framework.embedding import config_pb2

__all__ = ["config_pb2"]
