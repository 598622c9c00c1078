# SPDX-License-Identifier: Apache-2.0
"""SparseOperationKit's API on stock TensorFlow: `import sok_compat as sok`.

The names are those of `sok_compat.sparse_operation_kit`, except for `lookup`: here it is another
package. Importing this module imports no library: TensorFlow comes with the first name that needs
it, so that `sok_compat.HashTable` works without it.
"""

from __future__ import annotations

from typing import Any

from sok_compat import sparse_operation_kit as _face

__all__ = [name for name in _face.__all__ if name != "lookup"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'sok_compat' has no attribute {name!r}")
    return getattr(_face, name)


def __dir__() -> list[str]:
    return sorted((*globals(), *__all__))
