# SPDX-License-Identifier: Apache-2.0
"""Module paths of TensorFlow 1 and DeepRec that no file stands for.

`sok_compat.deeprec.train` is what `tf.train` is there, and `tensorflow.contrib.layers`, or a module
that DeepRec adds to `tensorflow.python`, is the one at that place below sok_compat/deeprec.
"""

import importlib
import importlib.util
import os
import sys
import types
from importlib.machinery import PathFinder

_FACE = "sok_compat.deeprec"
_FOLDER = os.path.dirname(os.path.dirname(__file__))  # of the face
_FOLDERS_WITH_ADDITIONS = ("contrib", "core", "python")  # below tensorflow


def add_finder():
    """Makes such paths importable; what TensorFlow has stays TensorFlow's."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(f"{_FACE}."):
            below = name[len(_FACE) + 1 :]
            return None if has_file(below) else _spec(name, _of_api(below))
        root, _, below = name.partition(".")
        if root != "tensorflow" or below.partition(".")[0] not in _FOLDERS_WITH_ADDITIONS:
            return None
        if PathFinder.find_spec(name, path) is not None:
            return None
        if has_file(below):
            return _spec(name, lambda: importlib.import_module(f"{_FACE}.{below}"))
        return _spec(name, _of_api(below)) if below.startswith("contrib.") else None


class _Loader:
    """Puts a module under another name; the module itself stays as it is."""

    def __init__(self, load):
        self._load = load

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        sys.modules[module.__name__] = self._load()


def _spec(name, load):
    if load is None:
        return None
    return importlib.util.spec_from_loader(name, _Loader(load), is_package=True)


def has_file(path):
    """Whether there is such a module, or package, below the face's folder."""
    file = os.path.join(_FOLDER, *path.split("."))
    return os.path.isfile(f"{file}.py") or os.path.isdir(file)


def _of_api(path):
    """A function that gives the module at a path under `tf`; None: there is none."""
    value = sys.modules[_FACE]
    for part in path.split("."):
        value = getattr(value, part, None)
    return (lambda: value) if isinstance(value, types.ModuleType) else None
