# SPDX-License-Identifier: Apache-2.0
"""The enums of DeepRec's storage, under the module path that its documents have them from.

As with enums of protocol messages, their members are names of the module, too.
"""

from sok_compat.deeprec.variables.options import CacheStrategy, StorageType

__all__ = ["CacheStrategy", "StorageType"]

globals().update(StorageType.__members__)
globals().update(CacheStrategy.__members__)
