# SPDX-License-Identifier: Apache-2.0
"""All changes that this package makes to other libraries at run time, in one list.

Importing changes nothing, and nothing changes before there are tables. The owner of a wrapper calls
`apply` in a function that it passes to `when_there_are_tables`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from sok_compat.runtime.integration import Integration, found_at
from sok_compat.runtime.tensorflow_integrations import ON_TENSORFLOW

INTEGRATIONS = {integration.name: integration for integration in ON_TENSORFLOW}


@dataclasses.dataclass(frozen=True)
class ChangeOfObject:
    """A change to an object that a script has created, or to the launcher's interpreter."""

    name: str
    purpose: str
    tested_on: str
    tested_by: str
    undo: str  # in words


CHANGES_OF_OBJECTS = (
    ChangeOfObject(
        "tf.train.SummarySaverHook._summary_writer, StepCounterHook._summary_writer",
        "another rank's hook with rank 0's folder gets a writer that writes nothing: two writers "
        "in a folder may pick the same file name",
        "TensorFlow 2.15 to 2.21",
        "tests/distributed/checkpoints/test_saving_sessions.py",
        "ends with the hook; give hooks a summary_writer, or other ranks another folder",
    ),
    ChangeOfObject(
        "tf.train.Scaffold._saver, by save_incremental_checkpoint_secs of DeepRec's sessions",
        "a scaffold without a saver gets the IncrementalSaver that the argument asks for",
        "TensorFlow 2.15 to 2.21",
        "tests/deeprec/checkpoints/test_checkpoints_of_sessions.py",
        "ends with the scaffold; give it a saver",
    ),
    ChangeOfObject(
        "hvd.DistributedGradientTape.gradient, of distributed_embeddings' own tape",
        "asks for generic names, as ranks have different variables",
        "Horovod 0.28.1",
        "tests/distributed_embeddings/test_plans_on_ranks.py",
        "ends with the tape",
    ),
    ChangeOfObject(
        "sys.meta_path, runpy.run_path and sys.excepthook, by python -m sok_compat.run",
        "in the script's modules `import tensorflow` gives sok_compat.deeprec; tracebacks begin in "
        "the script",
        "Python 3.9 to 3.13",
        "tests/deeprec/scripts/test_run.py",
        "ends with the process; sok_compat.run.script_modules.read_imports_as_written()",
    ),
    ChangeOfObject(
        "sys.path, by python -m sok_compat.run",
        "scripts that ask for the version of the distribution tensorflow find 'deeprec' in it",
        "Python 3.9 to 3.13",
        "tests/deeprec/scripts/test_distributions.py",
        "ends with the process; sok_compat.run.distributions.answer_as_installed()",
    ),
    ChangeOfObject(
        "the logger tensorflow and warnings.filters, by python -m sok_compat.run",
        "a script for TensorFlow 1 calls deprecated functions: their warnings hid all others",
        "TensorFlow 2.15 to 2.21",
        "tests/deeprec/scripts/test_console.py",
        "python -W default -m sok_compat.run; sok_compat.run.console.show_deprecations()",
    ),
    ChangeOfObject(
        "numpy, by python -m sok_compat.run",
        "names that NumPy 1.24 and 2.0 dropped, such as np.object and np.float, are there again",
        "NumPy 1.23 to 2.4",
        "tests/deeprec/scripts/test_older_names.py",
        "ends with the process; sok_compat.run.numpy_names.take_back()",
    ),
    ChangeOfObject(
        "sys.meta_path, by the wheel's .pth file",
        "`import sparse_operation_kit` and `import distributed_embeddings` give this package, "
        "unless another built one is found",
        "Python 3.9 to 3.13",
        "tests/packaging/test_import_alias.py",
        "pip uninstall sok_compat; `import sok_compat as sok` needs none of it",
    ),
)

_originals: dict[str, Any] = {}  # {name: replaced object}
_replacements: dict[str, Any] = {}  # {name: its replacement}
# Functions that apply integrations when there are tables; None if there are.
_waiting: list[Callable[[], None]] | None = []


def add(of_another_library: Iterable[Integration]) -> None:
    """Adds Integrations with libraries other than TensorFlow to the list."""
    INTEGRATIONS.update({integration.name: integration for integration in of_another_library})


def when_there_are_tables(change: Callable[[], None]) -> None:
    """Calls a function that applies integrations, now or before the first table is created.

    Args:
      change: the function; it may be passed, and called, more than once.
    """
    if _waiting is None:
        change()
    elif change not in _waiting:
        _waiting.append(change)


def expect_tables() -> None:
    """Applies all waiting changes; called before a table is created, or an optimizer is wrapped."""
    global _waiting
    changes, _waiting = _waiting or (), None
    for change in changes:
        change()


def apply(name: str, wrap: Callable[[Any], Any]) -> None:
    """Applies an integration, unless it is applied already.

    Args:
      name: of the integration.
      wrap: returns the replacement of the original object.

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


def table_of_changes() -> list[tuple[str, str, str, str, str]]:
    """[(name, purpose, tested on, tested by, how to undo it)] of all possible changes."""
    rows = [
        (each.name, each.purpose, each.tested_on, each.tested_by,
         f"sok_compat.runtime.integrations.undo({name!r})")
        for name, each in INTEGRATIONS.items()
    ]  # fmt: skip
    return rows + [
        (each.name, each.purpose, each.tested_on, each.tested_by, each.undo)
        for each in CHANGES_OF_OBJECTS
    ]


def applied() -> list[Integration]:
    """The applied Integrations, in the order of the list."""
    return [integration for name, integration in INTEGRATIONS.items() if name in _originals]
