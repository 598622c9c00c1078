# SPDX-License-Identifier: Apache-2.0
"""`tensorflow.python.feature_column.feature_column` over embedding variables, too."""

from sok_compat.deeprec.columns.input_layers import input_layer
from sok_compat.deeprec.columns.linear_models import linear_model
from sok_compat.deeprec.namespace.additions import all_else_of

__all__ = ["input_layer", "linear_model"]

__getattr__ = all_else_of(__name__)
