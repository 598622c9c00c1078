# SPDX-License-Identifier: Apache-2.0
"""Misspelt keyword arguments of all public callables of a face, in a process of its own."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

# Those that pass their words on to another callable, of which they need the other arguments, or
# whose words are names that the script chooses.
_PASS_WORDS_ON = {
    *("AdagradDecayOptimizerV2", "DecoupledWeightDecayExtension", "DenseEmbeddingLayerHandle"),
    *("SparseEmbeddingLayerHandle", "IncrementalSaver", "arg_scope", "export_saved_model"),
    *("get_dynamic_dimension_embedding_variable", "get_embedding", "get_multihash_variable"),
    *("gradients", "index_table_from_tensor", "stack", "staged"),
}


def _modules(face: str) -> Iterator[ModuleType]:
    root = importlib.import_module(face)
    yield root
    for found in pkgutil.walk_packages(root.__path__, f"{face}."):
        with contextlib.suppress(ImportError):  # what needs Keras 2
            yield importlib.import_module(found.name)


def _public_callables(face: str) -> dict[str, Callable[..., Any]]:
    found = {}
    for module in _modules(face):
        for name in getattr(module, "__all__", ()):
            with contextlib.suppress(AttributeError, ImportError):  # likewise
                value = getattr(module, name)
                home = getattr(value, "__module__", None) or ""
                if callable(value) and home.startswith("sok_compat."):
                    found.setdefault(id(value), (f"{module.__name__}.{name}", value))
    return dict(found.values())


def _outcome(function: Callable[..., Any]) -> tuple[str, str] | None:
    parameters = inspect.signature(function).parameters.values()
    named = [
        one.name for one in parameters if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    if not named:
        return None
    word = max(named, key=len)
    misspelt = word[:-1] if len(word) > 3 and word[:-1] not in named else word + "q"
    try:
        function(**{misspelt: 1})
    except Exception as error:
        return misspelt, f"{type(error).__name__}: {error}"
    return misspelt, "silent"


def errors_of(face: str) -> None:
    """Prints {path of a callable: (its longest word, misspelt; its error)} of a face as JSON."""
    outcomes = {
        path: _outcome(function)
        for path, function in _public_callables(face).items()
        if path.rpartition(".")[2] not in _PASS_WORDS_ON
    }
    print(json.dumps({path: outcome for path, outcome in outcomes.items() if outcome}))
