# SPDX-License-Identifier: Apache-2.0
"""`tf.contrib.training`: HParams."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NoReturn

from sok_compat.deeprec import contrib

__all__ = ["HParams"]


class HParams:
    """Hyperparameters as attributes. Each keeps the type of its first value.

    `parse` sets them from text such as `rate=0.1,dims=[8,4]`.
    """

    def __init__(self, **values: Any) -> None:
        self._names: list[str] = []
        for name, value in values.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds a hyperparameter; ValueError: the name is taken."""
        if hasattr(self, name):
            raise ValueError(f"HParams has {name!r} already")
        self._names.append(name)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Sets an existing one, converted to its type; ValueError: no such name, or conversion."""
        if name not in self._names:
            raise ValueError(f"HParams has no {name!r}, only {', '.join(self._names)}")
        old = getattr(self, name)
        is_several = isinstance(value, (list, tuple))
        if isinstance(old, (list, tuple)):
            items = value if is_several else [value]
            value = type(old)(_converted(name, item, old[0]) if old else item for item in items)
        elif is_several and old is not None:
            raise ValueError(f"HParams {name!r} is a single {type(old).__name__}, got {value!r}")
        else:
            value = _converted(name, value, old)
        setattr(self, name, value)

    def override_from_dict(self, values: Mapping[str, Any]) -> HParams:
        """Sets all values of a dict; returns self."""
        for name, value in values.items():
            self.set_hparam(name, value)
        return self

    def parse(self, text: str) -> HParams:
        """Sets values from text; returns self.

        Raises:
          ValueError: the text is not name=value, name=[value,...] or name[index]=value, separated
            by commas; an unknown or repeated name; a value of another type.
        """
        position = 0
        seen: set[tuple[str, str | None]] = set()
        while text[position:].strip():
            found = _ASSIGNMENT.match(text, position)
            if not found:
                raise ValueError(
                    f"HParams cannot parse {text[position:]!r} in {text!r}: expected name=value or "
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

    def _set_parsed(self, name: str, place: str | None, value: Any) -> None:
        if place is None:
            self.set_hparam(name, value)
            return
        items = list(self.get(name) or ())
        if not int(place) < len(items):
            raise ValueError(f"HParams {name!r} has {len(items)} values, and no index {place}")
        items[int(place)] = value
        self.set_hparam(name, items)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a name; `default` if there is none."""
        return getattr(self, key) if key in self._names else default

    def values(self) -> dict[str, Any]:
        """{name: value}"""
        return {name: getattr(self, name) for name in self._names}

    def __contains__(self, key: object) -> bool:
        return key in self._names

    def __repr__(self) -> str:
        return f"HParams({self.values()})"


def _converted(name: str, value: Any, like: Any) -> Any:
    """The value, converted without loss to the type of `like`."""
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
        raise ValueError(f"HParams {name!r} must be {kind}, like {like!r}, got {value!r}")
    return converted


_TRUTH = {"true": True, "1": True, "false": False, "0": False}
_ASSIGNMENT = re.compile(r"\s*(\w+)(?:\[(\d+)\])?\s*=\s*(?:\[([^][]*)\]|([^][,\n]*))\s*(?:[,\n]|$)")


def __getattr__(name: str) -> NoReturn:
    raise contrib.missing(f"training.{name}")
