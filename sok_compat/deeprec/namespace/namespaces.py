# SPDX-License-Identifier: Apache-2.0
"""`tf` and modules under it: TensorFlow 1's with more names."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow.compat.v1 as tensorflow_1

from sok_compat.deeprec.namespace.names import HOMES, value_of
from sok_compat.runtime.known_words import meant_word
from sok_compat.runtime.tf_versions import tensorflow_2

# Names of DeepRec that sok_compat does not have: {path under `tf`: (what it is, what to use)}.
_OF_DEEPREC_ALONE = {
    "MultihashOption": (
        "the option of a variable whose rows are made of the rows of several small variables",
        "tf.get_embedding_variable, with a filter if it grows too large",
    ),
    "get_hash_table": (
        "a hash table, the older form of embedding variables",
        "tf.get_embedding_variable",
    ),
    "hash_table": (
        "the module of hash tables, the older form of embedding variables",
        "tf.get_embedding_variable",
    ),
}
# Removed after TensorFlow 2.15: {name: what to use}.
_ENDED = {"estimator": "use tf.train.MonitoredTrainingSession, or TensorFlow 2.15"}
# Renamed in TensorFlow 1.0: {name before: name since}.
RENAMED_IN_1_0 = {
    "audio_summary": "summary.audio",
    "batch_matmul": "matmul",
    "complex_abs": "abs",
    "concat_v2": "concat",
    "histogram_summary": "summary.histogram",
    "image_summary": "summary.image",
    "inv": "reciprocal",
    "listdiff": "setdiff1d",
    "merge_all_summaries": "summary.merge_all",
    "merge_summary": "summary.merge",
    "mul": "multiply",
    "neg": "negative",
    "nn.bidirectional_rnn": "nn.static_bidirectional_rnn",
    "nn.rnn": "nn.static_rnn",
    "pack": "stack",
    "scalar_summary": "summary.scalar",
    "select": "where",
    "sub": "subtract",
    "train.SummaryWriter": "summary.FileWriter",
    "unpack": "unstack",
}
# Not part of the API, but old scripts use them through `tf`.
_FOLDERS = ("contrib", "core", "python")
# Modules to which DeepRec adds names: always Namespaces, even without additions.
_EXTENDED = ("config.experimental", "feature_column", "nn", "train")


@dataclasses.dataclass(frozen=True)
class MadeOnUse:
    """A value that is made when a script first takes its name."""

    make: Callable[[], Any]


class Namespace(types.ModuleType):
    """A module of TensorFlow 1 with more names. Looks up all other names in the original."""

    def __init__(self, name: str, path: str, original: Any, names: Mapping[str, Any]) -> None:
        super().__init__(name, getattr(original, "__doc__", None))
        self.__path__: list[str] = []  # module_paths finds modules below it
        self._path = path  # under `tf`
        self._original = original
        self._made_on_use = {n: value for n, value in names.items() if isinstance(value, MadeOnUse)}
        vars(self).update((n, each) for n, each in names.items() if n not in self._made_on_use)

    def __getattr__(self, name: str) -> Any:
        if name in self._made_on_use:
            vars(self)[name] = self._made_on_use[name].make()
            return vars(self)[name]
        if hasattr(self._original, name):
            return getattr(self._original, name)
        if name.startswith("__"):  # Python looks for it, not a script
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if not self._path and name in _FOLDERS:
            return _folder(name)
        path = f"{self._path}.{name}" if self._path else name
        error = AttributeError(_missing(path, dir(self)))
        error.name = name  # type: ignore[attr-defined]  # Python then adds no "Did you mean"
        raise error

    def __dir__(self) -> list[str]:
        names = {*dir(self._original), *vars(self), *self._made_on_use}
        return sorted(names - {"_made_on_use", "_original", "_path"})


def extended_tensorflow_1(face: types.ModuleType) -> Namespace:
    """TensorFlow 1 with the names of DeepRec, as a Namespace.

    Args:
      face: the package under which its submodules can be imported, and `tf.compat.v1`.
    """
    names: dict[str, Any] = {**dict.fromkeys(_EXTENDED, _EMPTY), "compat.v1": face}
    for path in HOMES:
        if path.partition(".")[0] not in _ENDED or hasattr(tensorflow_1, path.partition(".")[0]):
            names[path] = MadeOnUse(functools.partial(value_of, path))
    return _extended(face.__name__, "", tensorflow_1, names)


_EMPTY = object()  # instead of a value: makes the module at this path a Namespace


def _extended(module: str, path: str, original: Any, names: Mapping[str, Any]) -> Namespace:
    """The Namespace at a path under `tf`, put into sys.modules; the root is there as a file."""
    here: dict[str, Any] = {}
    below: dict[str, dict[str, Any]] = {}
    for name, value in names.items():
        head, _, rest = name.partition(".")
        if rest:
            below.setdefault(head, {})[rest] = value
        elif value is _EMPTY:
            below.setdefault(head, {})
        else:
            here[head] = value
    for head, added in below.items():
        below_path = f"{path}.{head}" if path else head
        make = functools.partial(_part, f"{module}.{head}", below_path, original, added)
        here[head] = MadeOnUse(make)
    namespace = Namespace(module, path, original, here)
    registered: Any = sys.modules.setdefault(module, namespace) if path else namespace
    return registered


def _part(module: str, path: str, original: Any, names: Mapping[str, MadeOnUse]) -> Any:
    """The Namespace, or the subclass, for what `original` has at the end of a path."""
    part = getattr(original, path.rpartition(".")[2])
    if not isinstance(part, type):
        return _extended(module, path, part, names)
    added = {name: value.make() for name, value in names.items()}
    return type(part.__name__, (part,), {"__doc__": part.__doc__, **added})


def _folder(name: str) -> types.ModuleType:
    """`tf.contrib` is a package of sok_compat; `tf.python` and `tf.core` are TensorFlow's."""
    module = f"sok_compat.deeprec.{name}" if name == "contrib" else f"tensorflow.{name}"
    return importlib.import_module(module)


def _missing(path: str, known: Iterable[str]) -> str:
    """The message for a missing name of `tf`, with a replacement if there is one."""
    if path in _OF_DEEPREC_ALONE:
        what, instead = _OF_DEEPREC_ALONE[path]
        return f"sok_compat does not have tf.{path} of DeepRec, {what}: use {instead}"
    if path in _ENDED:
        version = tensorflow_1.__version__
        return f"TensorFlow {version} has no tf.{path}, removed after 2.15: {_ENDED[path]}"
    text = (
        f"tf.{path} is a name of neither TensorFlow 1 (tf.compat.v1 of TensorFlow "
        f"{tensorflow_1.__version__}) nor DeepRec"
    )
    if path in RENAMED_IN_1_0:
        return f"{text}: since TensorFlow 1.0 it is tf.{RENAMED_IN_1_0[path]}"
    if _has(tensorflow_2, path):
        return f"{text}; TensorFlow 2 has it: tf.compat.v2.{path}"
    *above, name = path.split(".")
    module = ".".join(["tf", *above])
    meant = meant_word(name, known)
    return f"{text}; there is {module}.{meant}" if meant else f"{text}: see dir({module})"


def _has(value: Any, path: str) -> bool:
    for name in path.split("."):
        value = getattr(value, name, None)
    return value is not None
