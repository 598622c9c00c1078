# SPDX-License-Identifier: Apache-2.0
"""`tf` and the modules under it that have more names than TensorFlow 1's."""

import difflib
import importlib
import sys
import types

import tensorflow.compat.v1 as tensorflow_1

from sok_compat.runtime.tf_versions import tensorflow_2

# What DeepRec has and sok_compat does not, by the path under `tf`.
_OF_DEEPREC_ALONE = (
    "MultihashOption",
    "feature_column.categorical_column_with_adaptive_embedding",
    "get_dynamic_dimension_embedding_variable",
    "get_hash_table",
    "get_multihash_variable",
)
# What TensorFlow 2.15 had last.
_ENDED = {"estimator": "take tf.train.MonitoredTrainingSession, or TensorFlow 2.15"}
# Not part of the API, but reached through `tf` by old scripts.
_FOLDERS = ("contrib", "core", "python")
# Where DeepRec has names: modules of ours, also while they have no name more.
_EXTENDED = ("config.experimental", "feature_column", "nn", "train")


class Namespace(types.ModuleType):
    """A module of TensorFlow 1 with more names. What it does not have is looked up there."""

    def __init__(self, name, path, original, names):
        super().__init__(name, getattr(original, "__doc__", None))
        self.__path__ = []  # modules below it are found by module_paths
        self._path = path  # under `tf`
        self._original = original
        vars(self).update(names)

    def __getattr__(self, name):
        if hasattr(self._original, name):
            return getattr(self._original, name)
        if name.startswith("__"):  # asked for by Python, not by a script
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if not self._path and name in _FOLDERS:
            return _folder(name)
        path = f"{self._path}.{name}" if self._path else name
        raise AttributeError(_missing(path, dir(self)))

    def __dir__(self):
        return sorted({*dir(self._original), *vars(self)} - {"_original", "_path"})


def extended_tensorflow_1(names, module):
    """TensorFlow 1 with more names, as a Namespace.

    Args:
      names: {path under `tf`: value}.
      module: under whose name the modules that it has can be imported.
    """
    return _extended(module, "", tensorflow_1, {**dict.fromkeys(_EXTENDED, _EMPTY), **names})


_EMPTY = object()  # in the place of a value: a module that is to be a Namespace


def _extended(module, path, original, names):
    """The Namespace at a path under `tf`; in sys.modules, but for the root, which has a file."""
    here, below = {}, {}
    for name, value in names.items():
        head, _, rest = name.partition(".")
        if rest:
            below.setdefault(head, {})[rest] = value
        elif value is _EMPTY:
            below.setdefault(head, {})
        else:
            here[head] = value
    for head, added in below.items():
        part = getattr(original, head)
        if isinstance(part, type):
            here[head] = type(head, (part,), {"__doc__": part.__doc__, **added})
        else:
            below_path = f"{path}.{head}" if path else head
            here[head] = _extended(f"{module}.{head}", below_path, part, added)
    namespace = Namespace(module, path, original, here)
    return sys.modules.setdefault(module, namespace) if path else namespace


def _folder(name):
    """`tf.contrib` is a package of ours; of `tf.python` and `tf.core` TensorFlow has the folder."""
    module = f"sok_compat.deeprec.{name}" if name == "contrib" else f"tensorflow.{name}"
    return importlib.import_module(module)


def _missing(path, known):
    """What to say where `tf` has no such name, and what to do."""
    if path in _OF_DEEPREC_ALONE:
        return f"tf.{path} is DeepRec's, and sok_compat does not have it"
    if path in _ENDED:
        version = tensorflow_1.__version__
        return f"TensorFlow {version} has no tf.{path}, which ended with 2.15: {_ENDED[path]}"
    text = (
        f"tf.{path} is a name of neither TensorFlow 1 (tf.compat.v1 of TensorFlow "
        f"{tensorflow_1.__version__}) nor DeepRec"
    )
    if _has(tensorflow_2, path):
        return f"{text}; TensorFlow 2 has it: tf.compat.v2.{path}"
    *above, name = path.split(".")
    module = ".".join(["tf", *above])
    similar = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    return f"{text}; there is {module}.{similar[0]}" if similar else f"{text}: see dir({module})"


def _has(value, path):
    for name in path.split("."):
        value = getattr(value, name, None)
    return value is not None
