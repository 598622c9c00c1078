# SPDX-License-Identifier: Apache-2.0
"""A change to a function of another library: what it replaces, and whether that is still there."""

import dataclasses
import inspect
from typing import Callable


@dataclasses.dataclass(frozen=True)
class Integration:
    """A function of a library that is replaced by one around it, from `apply` to `undo`."""

    name: str
    purpose: str
    tested_on: str  # releases
    qualname: str  # of what is replaced, on these
    parameters: tuple  # its parameters' names, on these
    places: Callable  # a function: [(module or class, attribute)], all holding the same function
    newer_parameters: tuple = ()  # that the newer of these releases have after them

    def check(self):
        """What it is to replace, if that is still what it was.

        Raises:
          RuntimeError: it is not there, or another function, or takes other parameters.
        """
        found = [found_at(place) for place in self.places()]
        function = found[0]
        known = self.parameters
        is_known = (
            all(each is function for each in found)
            and getattr(function, "__qualname__", None) == self.qualname
            and tuple(inspect.signature(function).parameters)
            in (known, known + self.newer_parameters)
        )
        if not is_known:
            said = [_described(each) for each in dict.fromkeys(found)]
            raise RuntimeError(
                f"sok_compat changes {self.name} ({self.purpose}), and what it would replace is "
                f"not what it was in {self.tested_on}: expected {self.qualname}"
                f"({', '.join(self.parameters)}), found {', '.join(said)}. Another release, or "
                "another package that changes the same"
            )
        return function


def found_at(place):
    """What is there now; place: (module or class, attribute)."""
    owner, attribute = place
    return vars(owner).get(attribute)


def _described(function):
    if not callable(function):
        return repr(function)
    name = getattr(function, "__qualname__", type(function).__name__)
    return f"{name}({', '.join(inspect.signature(function).parameters)})"
