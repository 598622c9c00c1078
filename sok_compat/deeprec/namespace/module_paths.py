# SPDX-License-Identifier: Apache-2.0
"""Makes module paths of TensorFlow 1 and DeepRec importable that have no file.

`sok_compat.deeprec.train` is the module `tf.train` of sok_compat.deeprec. `tensorflow.contrib.x`,
and modules that DeepRec adds to `tensorflow.python`, are the modules at those paths below
sok_compat/deeprec.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any, Optional

_FACE = "sok_compat.deeprec"
_FOLDER = os.path.dirname(os.path.dirname(__file__))  # of the face
_FOLDERS_WITH_ADDITIONS = ("contrib", "core", "python")  # below tensorflow

_Load = Optional[Callable[[], types.ModuleType]]  # None: there is no such module


def add_finder() -> None:
    """Makes such paths importable, once TensorFlow 1 behaviour is on (v1_behavior.py).

    TensorFlow's own modules stay as they are.
    """
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def remove_finder() -> None:
    """Undoes add_finder for modules that are imported from now on."""
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, _Finder)]


class _Finder:
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.startswith(f"{_FACE}."):
            below = name[len(_FACE) + 1 :]
            return None if has_file(below) else _spec(name, _of_api(below))
        root, _, below = name.partition(".")
        if root != "tensorflow" or below.partition(".")[0] not in _FOLDERS_WITH_ADDITIONS:
            return None
        is_contrib = below.startswith("contrib.")  # whose path is our folder
        if not is_contrib and PathFinder.find_spec(name, path) is not None:
            return None
        if has_file(below):
            return _spec(name, lambda: importlib.import_module(f"{_FACE}.{below}"))
        return _spec(name, _of_api(below)) if is_contrib else None


class _Loader:
    """Registers an existing module under another name."""

    def __init__(self, load: Callable[[], types.ModuleType]) -> None:
        self._load = load

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        loaded = sys.modules[module.__name__] = self._load()
        if loaded.__name__.startswith(f"{_FACE}.contrib."):  # or Python refuses paths below a file
            vars(loaded).setdefault("__path__", [])


def _spec(name: str, load: _Load) -> ModuleSpec | None:
    if load is None:
        return None
    loader: Any = _Loader(load)
    return importlib.util.spec_from_loader(name, loader, is_package=True)


def has_file(path: str) -> bool:
    """Whether the face's folder has a module or package at this dotted path."""
    file = os.path.join(_FOLDER, *path.split("."))
    return os.path.isfile(f"{file}.py") or os.path.isdir(file)


def _of_api(path: str) -> _Load:
    """A function that returns the module at a path under `tf`; None if there is none.

    Raises:
      ModuleNotFoundError: there is none under tf.contrib; it names what to use.
    """
    value: Any = sys.modules[_FACE]
    for part in path.split("."):
        value = getattr(value, part, None)
    if isinstance(value, types.ModuleType):
        return lambda: value
    if path.startswith("contrib."):  # without a name, or `from` statements would ignore it
        contrib = importlib.import_module(f"{_FACE}.contrib")
        raise ModuleNotFoundError(str(contrib.missing(path[len("contrib.") :])))
    return None
