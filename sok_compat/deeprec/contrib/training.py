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
        """Sets one that is there, as its type; ValueError: the value is of another."""
        if name not in self._names:
            raise ValueError(f"HParams has no {name!r}, only {', '.join(self._names)}")
        old = getattr(self, name)
        is_several = isinstance(value, (list, tuple))
        if isinstance(old, (list, tuple)):
            items = value if is_several else [value]
            value = type(old)(_converted(name, item, old[0]) if old else item for item in items)
        elif is_several and old is not None:
            raise ValueError(f"{name!r} of HParams is one {type(old).__name__}, got {value!r}")
        else:
            value = _converted(name, value, old)
        setattr(self, name, value)

    def override_from_dict(self, values):
        """Sets all of a dict; returns this."""
        for name, value in values.items():
            self.set_hparam(name, value)
        return self

    def parse(self, text):
        """Sets what a text says; returns this.

        Raises:
          ValueError: what it says is not name=value, name=[value,...] or name[place]=value,
            separated by commas; a name that is not there, or that comes twice; another type.
        """
        position, seen = 0, set()
        while text[position:].strip():
            found = _ASSIGNMENT.match(text, position)
            if not found:
                raise ValueError(
                    f"HParams cannot read {text[position:]!r} in {text!r}: expected name=value or "
                    "name=[value,...], separated by commas"
                )
            name, place, items, value = found.groups()
            if (name, place) in seen:
                raise ValueError(f"HParams: {name!r} is set twice in {text!r}")
            seen.add((name, place))
            position = found.end()
            if items is not None:
                value = [item.strip() for item in items.split(",")] if items.strip() else []
            self._set_parsed(name, place, value)
        return self

    def _set_parsed(self, name, place, value):
        if place is None:
            self.set_hparam(name, value)
            return
        items = list(self.get(name) or ())
        if not int(place) < len(items):
            raise ValueError(f"{name!r} of HParams has {len(items)} values, and none at {place}")
        items[int(place)] = value
        self.set_hparam(name, items)

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


def _converted(name, value, like):
    """The value, as the type of another; nothing of it is lost."""
    if like is None or type(value) is type(like):
        return value
    value = value.strip() if isinstance(value, str) else value
    try:
        if isinstance(like, bool):
            return _TRUTH[str(value).lower()]
        converted = type(like)(value)
    except (KeyError, TypeError, ValueError):
        converted = None
    is_same = isinstance(value, str) or isinstance(like, str) or converted == value
    if converted is None or not is_same:
        kind = "true or false" if isinstance(like, bool) else type(like).__name__
        raise ValueError(f"{name!r} of HParams is {kind}, as {like!r} is, got {value!r}")
    return converted


_TRUTH = {"true": True, "1": True, "false": False, "0": False}
_ASSIGNMENT = re.compile(r"\s*(\w+)(?:\[(\d+)\])?\s*=\s*(?:\[([^][]*)\]|([^][,\n]*))\s*(?:[,\n]|$)")


def __getattr__(name):
    raise contrib.missing(f"training.{name}")
