# SPDX-License-Identifier: Apache-2.0
"""Where the sources define a public name; reads them, and imports no TensorFlow."""

from __future__ import annotations

import ast
import functools
import pathlib

import sok_compat.distributed_embeddings
import sok_compat.sparse_operation_kit
from sok_compat.deeprec.namespace.names import HOMES

ROOT = pathlib.Path(__file__).parents[2]
_FACES = {
    "sok": sok_compat.sparse_operation_kit,
    "distributed_embeddings": sok_compat.distributed_embeddings,
}
_DEEPREC = "sok_compat.deeprec"


def home(name: str) -> tuple[str, str] | None:
    """(module, name there) of a function or class with a docstring, or None.

    name: as the tables of names have it, such as 'sok.Init', 'tf.nn.embedding_lookup'.
    """
    face, _, path = name.partition(".")
    if face == "tf":
        return _defined(".".join(HOMES[path])) if path in HOMES else None
    if face == "tensorflow":
        return _defined(f"{_DEEPREC}.{path}")
    module = _FACES[face]
    lazy = module._HOMES.get(path)
    return _defined(f"{lazy}.{path}" if lazy else f"{module.__name__}.{path}")


def _defined(path: str) -> tuple[str, str] | None:
    """The same of a path of modules and a name, through any imports of it."""
    module, _, name = path.rpartition(".")
    if node := node_of(module, name):
        return (module, name) if ast.get_docstring(node) else None
    for node in _statements(module):
        if isinstance(node, ast.ImportFrom) and node.module != module:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _defined(f"{node.module}.{alias.name}")
    return None


def node_of(module: str, name: str) -> ast.ClassDef | ast.FunctionDef | None:
    """The definition of that name at the top of a module of ours, if it has one."""
    for node in _statements(module):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
            return node
    return None


@functools.cache
def _statements(module: str) -> list[ast.stmt]:
    """What stands at the top of a module; nothing of modules that are not ours."""
    path = ROOT.joinpath(*module.split("."))
    for source in (path.with_suffix(".py"), path / "__init__.py"):
        if module.startswith("sok_compat.") and source.is_file():
            return ast.parse(source.read_text()).body
    return []
