# SPDX-License-Identifier: Apache-2.0
"""DeepRec's storage enums, under the module path that its documents use.

As with protocol message enums, their members are also names of this module.
"""

from sok_compat.deeprec.variables.storage_option import CacheStrategy, StorageType

__all__ = ["CacheStrategy", "StorageType"]

globals().update(StorageType.__members__)
globals().update(CacheStrategy.__members__)
