# SPDX-License-Identifier: Apache-2.0
"""Which modules belong to the script, and how their source is read: with other imports.

The script's are those that are not installed: whatever is neither in Python's own folders nor in
one that pip installs into. All others, TensorFlow's, Keras's and Horovod's among them, are loaded
as always, so `import tensorflow` in them gives TensorFlow.
"""

import ast
import functools
import os
import sys
from importlib.machinery import PathFinder, SourceFileLoader

from sok_compat.run.import_statements import with_own_imports

# Of these nothing is the script's, wherever they are.
_LIBRARIES = ("tensorflow", "tensorflow_estimator", "keras", "tf_keras", "horovod", "sok_compat")
_STANDARD_LIBRARY = os.path.dirname(os.__file__)


def read_imports_as_tensorflow_1():
    """From now on, what the script's modules import is what import_statements.py makes of it."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        place = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else None
        sys.meta_path.insert(len(sys.meta_path) if place is None else place, _Finder())


def own_code(source, path):
    """The code of a file of the script, with other imports; SyntaxError: it has none."""
    return compile(with_own_imports(ast.parse(source, path)), path, "exec", dont_inherit=True)


class _ScriptLoader(SourceFileLoader):
    """Has a module's code. Its bytecode is not kept: other programs import the file as it is."""

    def __init__(self, fullname, path, code):
        super().__init__(fullname, path)
        self._code = code

    def get_code(self, fullname):
        return self._code


class _Finder:
    """Finds what Python's own finder finds, and puts our loader to modules of the script."""

    def __init__(self):
        self._is_scripts = {}  # {name of a top-level module: whether it is the script's}

    def find_spec(self, name, path=None, target=None):
        spec = PathFinder.find_spec(name, path, target)
        if spec is None:
            return None
        root, _, below = name.partition(".")
        if not below:
            self._is_scripts[root] = root not in _LIBRARIES and not _is_installed(_entry_of(spec))
        # A subclass has reasons of its own, and reads its source itself.
        if type(spec.loader) is SourceFileLoader and self._is_scripts.get(root, False):
            spec.loader = _loader(spec.loader)
        return spec


def _loader(loader):
    """One of ours, or this one where it does as well, or finds the errors."""
    try:
        source = loader.get_data(loader.path)
        if not any(name in source for name in (b"tensorflow", b"sparse_operation_kit")):
            return loader
        return _ScriptLoader(loader.name, loader.path, own_code(source, loader.path))
    except (OSError, SyntaxError, ValueError):  # ValueError: null bytes
        return loader


def _entry_of(spec):
    """The folder on sys.path that a top-level module was found in."""
    locations = list(spec.submodule_search_locations or ())
    return os.path.dirname(os.path.abspath(locations[0] if locations else spec.origin or ""))


@functools.cache
def _is_installed(folder):
    """Whether pip, or Python's own installation, put there what is in a folder."""
    parts = folder.split(os.sep)
    if "site-packages" in parts or "dist-packages" in parts:
        return True
    if os.path.commonpath([folder, _STANDARD_LIBRARY]) == _STANDARD_LIBRARY:
        return True
    return os.path.isdir(folder) and any(n.endswith(".dist-info") for n in os.listdir(folder))
