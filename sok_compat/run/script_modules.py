# SPDX-License-Identifier: Apache-2.0
"""Finds the modules that belong to the script, and rewrites their imports.

These are modules that are not installed, neither in Python's own folders nor in one that pip
installs into. All others, including TensorFlow's, Keras's and Horovod's, are loaded as usual, so
`import tensorflow` in them gives TensorFlow.
"""

from __future__ import annotations

import ast
import functools
import os
import runpy
import sys
from importlib.machinery import PathFinder, SourceFileLoader
from types import CodeType
from typing import Any

from sok_compat.run.import_statements import with_own_imports

# These never belong to the script, wherever they are.
_LIBRARIES = ("tensorflow", "tensorflow_estimator", "keras", "tf_keras", "horovod", "sok_compat")
_STANDARD_LIBRARY = os.path.dirname(os.__file__)


def read_imports_as_tensorflow_1() -> None:
    """Makes the script's modules load with the imports of import_statements.py from now on."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        place = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else None
        sys.meta_path.insert(len(sys.meta_path) if place is None else place, _Finder())
        setattr(runpy, _READER, _code_from_file)


def read_imports_as_written() -> None:
    """Undoes read_imports_as_tensorflow_1 for modules that are imported from now on."""
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, _Finder)]
    setattr(runpy, _READER, _code_from_file_as_written)


def own_code(source: str | bytes, path: str) -> CodeType:
    """Compiles a file of the script with rewritten imports.

    Raises:
      SyntaxError: the source is not valid.
    """
    return compile(with_own_imports(ast.parse(source, path)), path, "exec", dont_inherit=True)


_READER = "_get_code_from_file"  # of runpy.run_path
_code_from_file_as_written = getattr(runpy, _READER)


def _code_from_file(*args: Any) -> Any:
    """Makes runpy.run_path rewrite the imports of files that are not installed."""
    read = _code_from_file_as_written(*args)  # (code, path) before Python 3.12, then code
    path = os.path.abspath(args[-1])
    if not path.endswith(".py") or _is_installed(os.path.dirname(path)):
        return read
    with open(path, "rb") as file:
        code = own_code(file.read(), args[-1])
    return (code, *read[1:]) if isinstance(read, tuple) else code


class _ScriptLoader(SourceFileLoader):
    """Loads compiled code. Writes no bytecode, as other programs import the file unchanged."""

    def __init__(self, fullname, path, code):
        super().__init__(fullname, path)
        self._code = code

    def get_code(self, fullname):
        return self._code


class _Finder:
    """Finds modules as Python's own finder does, and replaces the loader of the script's."""

    def __init__(self):
        self._is_scripts = {}  # {name of a top-level module: whether it is the script's}

    def find_spec(self, name, path=None, target=None):
        spec = PathFinder.find_spec(name, path, target)
        if spec is None:
            return None
        root, _, below = name.partition(".")
        if not below:
            self._is_scripts[root] = root not in _LIBRARIES and not _is_installed(_entry_of(spec))
        # A subclass may read its source differently.
        if type(spec.loader) is SourceFileLoader and self._is_scripts.get(root, False):
            spec.loader = _loader(spec.loader)
        return spec


def _loader(loader):
    """Our loader, or the given one if the module needs no rewriting or cannot be compiled."""
    try:
        source = loader.get_data(loader.path)
        if not any(name in source for name in (b"tensorflow", b"sparse_operation_kit", b"numpy")):
            return loader
        return _ScriptLoader(loader.name, loader.path, own_code(source, loader.path))
    except (OSError, SyntaxError, ValueError):  # ValueError: null bytes
        return loader


def _entry_of(spec):
    """The folder on sys.path in which a top-level module was found."""
    locations = list(spec.submodule_search_locations or ())
    return os.path.dirname(os.path.abspath(locations[0] if locations else spec.origin or ""))


@functools.cache
def _is_installed(folder):
    """Whether a folder belongs to Python's installation or to one by pip."""
    parts = folder.split(os.sep)
    if "site-packages" in parts or "dist-packages" in parts:
        return True
    if os.path.commonpath([folder, _STANDARD_LIBRARY]) == _STANDARD_LIBRARY:
        return True
    return os.path.isdir(folder) and any(n.endswith(".dist-info") for n in os.listdir(folder))
