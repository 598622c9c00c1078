# SPDX-License-Identifier: Apache-2.0
"""`InPlaceInitializer`: settings of an initializer, by name."""

from __future__ import annotations

from typing import Any


class InPlaceInitializer:
    """Holds its arguments as attributes. API of SparseOperationKit 1.x.

    No layer takes it, neither in SparseOperationKit nor here: tables start with their default if
    `embedding_initializer` is None.
    """

    def __init__(self, **kwargs: Any) -> None:
        """Makes each argument an attribute.

        Args:
          **kwargs: {name: value}.
        """
        self.__dict__.update(kwargs)

    def serialize(self) -> dict[str, Any]:
        """Returns the attributes as a dict."""
        return dict(self.__dict__)

    @classmethod
    def deserialize(cls, attributes: dict[str, Any]) -> InPlaceInitializer:
        """Makes one from a dict of attributes, as returned by `serialize`."""
        return cls(**attributes)
