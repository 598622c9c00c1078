# SPDX-License-Identifier: Apache-2.0
"""`tf.contrib.training`: HParams."""

import re

from sok_compat.deeprec import contrib

__all__ = ["HParams"]


class HParams:
    """Named values of a model, as attributes. A value keeps the type that it was made with.

    `parse` sets them from text such as `rate=0.1,dims=[8,4]`.
    """

    def __init__(self, **values):
        self._names = []
        for name, value in values.items():
            self.add_hparam(name, value)

    def add_hparam(self, name, value):
        """Adds one; ValueError: there is such a name already."""
        if hasattr(self, name):
            raise ValueError(f"HParams has {name!r} already")
        self._names.append(name)
        setattr(self, name, value)

    def set_hparam(self, name, value):
        """Sets one that is there, as its type."""
        if name not in self._names:
            raise ValueError(f"HParams has no {name!r}, only {', '.join(self._names)}")
        old = getattr(self, name)
        if isinstance(old, list):
            items = value if isinstance(value, list) else [value]
            setattr(self, name, [_converted(item, old[0]) if old else item for item in items])
        else:
            setattr(self, name, _converted(value, old))

    def override_from_dict(self, values):
        """Sets all of a dict; returns this."""
        for name, value in values.items():
            self.set_hparam(name, value)
        return self

    def parse(self, text):
        """Sets what a text says; returns this."""
        for name, items, value in re.findall(r"(\w+)\s*=\s*(?:\[([^]]*)\]|([^,]*))", text):
            listed = [item.strip() for item in items.split(",")] if items else value.strip()
            self.set_hparam(name, listed)
        return self

    def get(self, key, default=None):
        """A value by its name."""
        return getattr(self, key) if key in self._names else default

    def values(self):
        """{name: value}."""
        return {name: getattr(self, name) for name in self._names}

    def __contains__(self, key):
        return key in self._names

    def __repr__(self):
        return f"HParams({self.values()})"


def _converted(value, like):
    """The value, as the type of another."""
    if like is None or isinstance(value, type(like)):
        return value
    if isinstance(like, bool):
        truth = {"true": True, "1": True, "false": False, "0": False}
        if str(value).lower() not in truth:
            raise ValueError(f"expected true or false, got {value!r}")
        return truth[str(value).lower()]
    return type(like)(value)


def __getattr__(name):
    raise contrib.missing(f"training.{name}")
