# SPDX-License-Identifier: Apache-2.0
"""Rewrites a script's import statements. Line numbers do not change.

| in the script | what is run |
|---|---|
| `import tensorflow as tf`, also of `tensorflow.compat.v1` | `import sok_compat.deeprec as tf` |
| `from tensorflow.train import Saver` | `from sok_compat.deeprec.train import Saver` |
| `from tensorflow.python.ops import math_ops` | the same |
| `from tensorflow.python.ops import variables` | `from sok_compat.deeprec.python.ops import ...` |
| `import tensorflow.compat.v2 as tf` | the same |
| `from sparse_operation_kit.core import graph_keys` | `from sok_compat.sparse_operation_kit. ...` |
| `import numpy as np` | the same, after `import sok_compat.run.numpy_names` |

DeepRec adds names to the module `variables`, and TensorFlow 2 has moved some of others. Imports of
TensorFlow, except `compat.v2`, first switch on TensorFlow 1's behaviour.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable

_DEEPREC = "sok_compat.deeprec"
_BEFORE = {  # {package: what is imported before it}
    "numpy": "sok_compat.run.numpy_names",
    "tensorflow": f"{_DEEPREC}.namespace.v1_behavior",
}
_FACE_FOLDER = os.path.join(os.path.dirname(os.path.dirname(__file__)), "deeprec")
# Folders of TensorFlow outside its API; sok_compat.deeprec provides what they lack.
_FOLDERS = ("compiler", "contrib", "core", "dtensor", "include", "python", "tools", "tsl")


def with_own_imports(tree: ast.Module) -> ast.Module:
    """The module with its import statements replaced as in the table above."""
    return ast.fix_missing_locations(_Imports().visit(tree))


def own_name(module: str, names: Iterable[str] = ()) -> str | None:
    """Name of the module to import instead; None if the statement stays as it is."""
    root, _, path = module.partition(".")
    if root == "sparse_operation_kit":
        return f"sok_compat.{module}"
    if root != "tensorflow":
        return None
    if path == "compat.v1" or path.startswith("compat.v1."):
        path = path[len("compat.v1.") :]
    head, _, below = path.partition(".")
    if head == "compat" and below:  # explicitly TensorFlow 2
        return None
    if head in _FOLDERS:
        is_ours = any(map(_is_in_face, [path, *(f"{path}.{name}" for name in names)]))
        return f"{_DEEPREC}.{path}" if is_ours else module
    return f"{_DEEPREC}.{path}" if path else _DEEPREC


def _is_in_face(path):
    """Whether the face has a file for a module below tensorflow, with names of DeepRec."""
    return os.path.isfile(os.path.join(_FACE_FOLDER, *path.split(".")) + ".py")


class _Imports(ast.NodeTransformer):
    def visit_Import(self, node):
        statements = [each for alias in node.names for each in _import_statements(alias)]
        return [ast.copy_location(each, node) for each in statements]

    def visit_ImportFrom(self, node):
        names = [alias.name for alias in node.names]
        if not node.module or node.level:
            return node
        own = own_name(node.module, names)
        before = [ast.copy_location(each, node) for each in _before(node.module)]
        node.module = own or node.module
        return [*before, node]


def _import_statements(alias):
    """The statements for one name of an `import`."""
    name, bound = alias.name, alias.asname
    own = own_name(name)
    if own is None:
        return [*_before(name), ast.Import([alias])]
    root = name.partition(".")[0]
    if bound or name == root:
        return [*_before(name), _import(own, bound or name)]
    # `import a.b` loads a.b and binds a.
    return [*_before(name), _import(own, root), _import(own_name(root), root)]


def _import(name, bound):
    return ast.Import([ast.alias(name=name, asname=bound)])


def _before(module):
    """The statements to run before this module is imported; they bind no name."""
    first = _BEFORE.get(module.partition(".")[0])
    if first is None or module.startswith("tensorflow.compat.v2"):
        return []
    function = ast.Name(id="__import__", ctx=ast.Load())
    return [ast.Expr(ast.Call(func=function, args=[ast.Constant(first)], keywords=[]))]
