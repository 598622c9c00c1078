# SPDX-License-Identifier: Apache-2.0
"""The hash table of this package on NumPy arrays: no TensorFlow, no communication."""

from sok_compat.engine.errors import CapacityError
from sok_compat.engine.hash_table import HashTable
from sok_compat.engine.initializers import Constant, Normal, TruncatedNormal, Uniform

__all__ = ["CapacityError", "Constant", "HashTable", "Normal", "TruncatedNormal", "Uniform"]
