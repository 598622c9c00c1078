# SPDX-License-Identifier: Apache-2.0
"""`InPlaceInitializer`: settings of an initializer, by name."""


class InPlaceInitializer:
    """Holds its arguments as attributes. API of SparseOperationKit 1.x.

    No layer takes it, there or here: `embedding_initializer=None` is the default of tables.
    """

    def __init__(self, **kwargs):
        """Each argument becomes an attribute."""
        self.__dict__.update(kwargs)

    def serialize(self):
        """The attributes, as a dict."""
        return dict(self.__dict__)

    @classmethod
    def deserialize(cls, attributes):
        """One with the attributes of a dict, as from `serialize`."""
        return cls(**attributes)
