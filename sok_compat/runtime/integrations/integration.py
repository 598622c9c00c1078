# SPDX-License-Identifier: Apache-2.0
"""`Integration`: a change to another library, with a check of the object that it replaces."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, Callable


@dataclasses.dataclass(frozen=True)
class Integration:
    """A function or class of a library that is replaced by a wrapper, from `apply` to `undo`.

    Attributes:
      name: as scripts know it.
      purpose: of the change.
      tested_on: releases of the library.
      tested_by: the test that fails without it.
      qualname: of the replaced object, on these releases.
      parameters: names of its parameters, on these releases.
      places: returns [(module or class, attribute)], all with the same object.
      newer_parameters: names of further parameters on the newer of these releases, at the end, or
        anywhere in overridden functions.
      overridden: {name: parameters' names} of the functions in a replaced class or module that the
        wrapper relies on.
    """

    name: str
    purpose: str
    tested_on: str
    tested_by: str
    qualname: str
    parameters: tuple[str, ...]
    places: Callable[[], list[tuple[Any, str]]]
    newer_parameters: tuple[str, ...] = ()
    overridden: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    def check(self) -> Any:
        """The object to replace, if it is as on the tested releases.

        Raises:
          RuntimeError: the object is missing, is another one, or takes other parameters.
        """
        found = [found_at(place) for place in self.places()]
        is_known = all(each is found[0] for each in found) and _is(
            found[0], self.qualname, (self.parameters, self.parameters + self.newer_parameters)
        )
        if not is_known:
            described = [_described(each) for each in dict.fromkeys(found)]
            self._raise(self.qualname, self.parameters, ", ".join(described))
        for function, parameters in self.overridden.items():
            inner = getattr(found[0], function, None)
            if inner is None or self._older(inner) != parameters:
                self._raise(f"{self.qualname}.{function}", parameters, _described(inner))
        return found[0]

    def _older(self, function):
        return tuple(each for each in _parameters(function) if each not in self.newer_parameters)

    def _raise(self, qualname, parameters, found):
        raise RuntimeError(
            f"sok_compat changes {self.name} ({self.purpose}), but the object to replace is "
            f"not what it was in {self.tested_on}: expected {qualname}"
            f"({', '.join(parameters)}), found {found}. This is another release, or "
            "another package changes the same object"
        )


def found_at(place: tuple[Any, str]) -> Any:
    """The object now at a place, (module or class, attribute); None if there is none."""
    owner, attribute = place
    return vars(owner).get(attribute)


def _is(found, qualname, known_parameters):
    if inspect.ismodule(found):  # it is checked by its functions
        return not known_parameters[0]
    return getattr(found, "__qualname__", None) == qualname and _parameters(found) in (
        known_parameters
    )


def _parameters(function):
    return tuple(inspect.signature(function).parameters)


def _described(function):
    if not callable(function):
        return repr(function)
    name = getattr(function, "__qualname__", type(function).__name__)
    return f"{name}({', '.join(_parameters(function))})"
