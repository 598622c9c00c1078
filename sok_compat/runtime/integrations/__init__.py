# SPDX-License-Identifier: Apache-2.0
"""All changes that this package makes to other libraries at run time, in one list.

Importing changes nothing, and nothing changes before there are tables. The owner of a wrapper calls
`apply` in a function that it passes to `when_there_are_tables`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from sok_compat.runtime.integrations.integration import Integration, found_at
from sok_compat.runtime.integrations.of_objects import CHANGES_OF_OBJECTS
from sok_compat.runtime.integrations.of_tensorflow import ON_TENSORFLOW

INTEGRATIONS = {integration.name: integration for integration in ON_TENSORFLOW}


_originals: dict[str, Any] = {}  # {name: replaced object}
_replacements: dict[str, Any] = {}  # {name: its replacement}
# Functions that apply integrations when there are tables; None if there are.
_waiting: list[Callable[[], None]] | None = []
_lock = threading.RLock()  # two threads may create the first tables


def add(of_another_library: Iterable[Integration]) -> None:
    """Adds Integrations with libraries other than TensorFlow to the list."""
    INTEGRATIONS.update({integration.name: integration for integration in of_another_library})


def when_there_are_tables(change: Callable[[], None]) -> None:
    """Calls a function that applies integrations, now or once before the first table is created."""
    if _waiting is None:
        change()
    elif change not in _waiting:
        _waiting.append(change)


def expect_tables() -> None:
    """Applies all waiting changes; called before a table is created, or an optimizer is wrapped."""
    global _waiting
    with _lock:
        while _waiting:
            _waiting[0]()  # if it raises, it waits on: the next table raises, too
            del _waiting[0]
        _waiting = None


def apply(name: str, wrap: Callable[[Any], Any]) -> None:
    """Applies an integration, unless it is applied already; `wrap` makes the original's
    replacement.

    Raises:
      RuntimeError: the original is not as on the tested releases.
    """
    if name in _originals:
        return
    integration = INTEGRATIONS[name]
    original = integration.check()
    _originals[name], _replacements[name] = original, wrap(original)
    for owner, attribute in integration.places():
        setattr(owner, attribute, _replacements[name])


def undo(name: str) -> None:
    """Restores the original object, unless the integration is not applied.

    Raises:
      RuntimeError: the replacement has been replaced since.
    """
    if name not in _originals:
        return
    places = INTEGRATIONS[name].places()
    if any(found_at(place) is not _replacements[name] for place in places):
        raise RuntimeError(f"{name} has been changed since sok_compat changed it: undo that first")
    for owner, attribute in places:
        setattr(owner, attribute, _originals[name])
    del _originals[name], _replacements[name]


def table_of_changes(is_of_process: bool = False) -> list[tuple[str, str, str, str, str]]:
    """[(name, purpose, tested on, tested by, how to undo it)] of all possible changes; if
    `is_of_process`, of the functions that this process has replaced, and no others."""
    rows = [
        (each.name, each.purpose, each.tested_on, each.tested_by,
         f"sok_compat.runtime.integrations.undo({name!r})")
        for name, each in INTEGRATIONS.items()
        if name in _originals or not is_of_process
    ]  # fmt: skip
    if is_of_process:
        return rows
    return rows + [
        (each.name, each.purpose, each.tested_on, each.tested_by, each.undo)
        for each in CHANGES_OF_OBJECTS
    ]


def applied() -> list[Integration]:
    """The applied Integrations, in the order of the list."""
    return [integration for name, integration in INTEGRATIONS.items() if name in _originals]
