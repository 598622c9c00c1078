# SPDX-License-Identifier: Apache-2.0
"""The import statements of a script, and what is put in their place. Lines stay where they are.

| in the script | what is run |
|---|---|
| `import tensorflow as tf`, also of `tensorflow.compat.v1` | `import sok_compat.deeprec as tf` |
| `from tensorflow.train import Saver` | `from sok_compat.deeprec.train import Saver` |
| `from tensorflow.python.ops import array_ops` | the same |
| `from tensorflow.python.ops import variables` | `from sok_compat.deeprec.python.ops import ...` |
| `import tensorflow.compat.v2 as tf` | the same |
| `from sparse_operation_kit.core import graph_keys` | `from sok_compat.sparse_operation_kit. ...` |

`variables` is a module that DeepRec adds names to. Before those of TensorFlow, but the one before
the last, TensorFlow 1's behaviour is switched on.
"""

import ast
import os

_DEEPREC = "sok_compat.deeprec"
_SWITCH = f"{_DEEPREC}.v1_behavior"
_FACE_FOLDER = os.path.join(os.path.dirname(os.path.dirname(__file__)), "deeprec")
# Folders of TensorFlow that are not its API: what is missing there, sok_compat.deeprec adds.
_FOLDERS = ("compiler", "contrib", "core", "dtensor", "include", "python", "tools", "tsl")


def with_own_imports(tree):
    """The module, with the statements of the table above in the place of the script's."""
    return ast.fix_missing_locations(_Imports().visit(tree))


def own_name(module, names=()):
    """The module that is imported for this one; None: the statement stays as it is.

    Args:
      module: its name.
      names: what is imported from it.
    """
    root, _, path = module.partition(".")
    if root == "sparse_operation_kit":
        return f"sok_compat.{module}"
    if root != "tensorflow":
        return None
    if path == "compat.v1" or path.startswith("compat.v1."):
        path = path[len("compat.v1.") :]
    head, _, below = path.partition(".")
    if head == "compat" and below:  # TensorFlow 2, by that name
        return None
    if head in _FOLDERS:
        is_ours = any(map(_is_in_face, [path, *(f"{path}.{name}" for name in names)]))
        return f"{_DEEPREC}.{path}" if is_ours else module
    return f"{_DEEPREC}.{path}" if path else _DEEPREC


def _is_in_face(path):
    """Whether a module below tensorflow has names of DeepRec, and so a file in the face."""
    return os.path.isfile(os.path.join(_FACE_FOLDER, *path.split(".")) + ".py")


class _Imports(ast.NodeTransformer):
    def visit_Import(self, node):
        statements = [each for alias in node.names for each in _import_statements(alias)]
        return [ast.copy_location(each, node) for each in statements]

    def visit_ImportFrom(self, node):
        names = [alias.name for alias in node.names]
        own = own_name(node.module, names) if node.module and not node.level else None
        if own is None:
            return node
        switch = [ast.copy_location(each, node) for each in _switch(node.module)]
        node.module = own
        return [*switch, node]


def _import_statements(alias):
    """The statements for one name of an `import`."""
    name, bound = alias.name, alias.asname
    own = own_name(name)
    if own is None:
        return [ast.Import([alias])]
    root = name.partition(".")[0]
    if bound or name == root:
        return [*_switch(name), _import(own, bound or name)]
    # `import a.b` loads a.b and binds a.
    return [*_switch(name), _import(own, root), _import(own_name(root), root)]


def _import(name, bound):
    return ast.Import([ast.alias(name=name, asname=bound)])


def _switch(module):
    """What has to be run before this module is imported; it binds no name."""
    if not f"{module}.".startswith("tensorflow."):
        return []
    function = ast.Name(id="__import__", ctx=ast.Load())
    return [ast.Expr(ast.Call(func=function, args=[ast.Constant(_SWITCH)], keywords=[]))]
