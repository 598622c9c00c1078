# SPDX-License-Identifier: Apache-2.0
"""Checks that imports and includes stay within the picture of docs/architecture.md."""

import ast
import re
import sys
from pathlib import Path

# Room -> the rooms that it may use, besides itself. A room is a folder, or a module beside it.
_BELOW_FACES = ("training", "serving", "checkpoint", "lookup", "tables", "runtime", "engine")
PYTHON = {
    "sok_compat": ("sparse_operation_kit",),  # the root's own __init__.py
    "sok_compat/doctor": ("runtime", "engine"),
    "sok_compat/run": (),
    "sok_compat/sparse_operation_kit": _BELOW_FACES,
    "sok_compat/deeprec": _BELOW_FACES,
    "sok_compat/distributed_embeddings": _BELOW_FACES,
    "sok_compat/training": ("tables", "runtime"),
    "sok_compat/serving": ("lookup", "tables", "runtime"),
    "sok_compat/checkpoint": ("tables", "runtime"),
    "sok_compat/lookup": ("tables", "runtime"),
    "sok_compat/tables": ("runtime",),
    "sok_compat/runtime": (),
    "sok_compat/engine": (),
}
CXX = {
    "ops/tf": ("cpu", "cuda", "device", "exchange", "engine", "base"),
    "ops/python": ("cpu", "cuda", "device", "engine", "base"),
    "ops/cuda": ("device", "engine", "base"),
    "ops/cpu": ("engine", "base"),
    "ops/device": ("engine", "base"),
    "ops/exchange": ("engine", "base"),
    "ops/engine": ("base",),
    "ops/base": (),
    "ops/tests": None,  # all of them
}
# Headers of others -> the only rooms that may include them.
FOREIGN = {
    r"tensorflow/": ("ops/tf", "ops/tests"),
    r"nanobind/": ("ops/python",),
    r"(cuda|cub/|thrust/|nccl)": ("ops/cuda", "ops/tests"),
}

_INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]')


def python_problems(path, text):
    """Messages on the imports of one file below sok_compat, also of those inside functions."""
    room = _python_room(path.with_suffix("").parts)
    for node in ast.walk(ast.parse(text)):
        for module in _imported(node, path):
            used = _python_room(module.split("."))
            if used and used != room and used.rpartition("/")[2] not in _allowed(PYTHON, room):
                yield f"{path}:{node.lineno}: {room} may not import {used} ({module})"


def cxx_problems(path, text):
    """Messages on the includes of one file below ops."""
    room = "/".join(path.parts[:2])
    for number, line in enumerate(text.splitlines(), 1):
        included = _INCLUDE.match(line)
        if not included:
            continue
        header = included[1]
        if not _may_include(room, header):
            yield f"{path}:{number}: {room} may not include {header}"


def _may_include(room, header):
    for pattern, rooms in FOREIGN.items():
        if re.match(pattern, header):
            return room in rooms
    if not header.startswith("ops/"):
        return True
    used = "/".join(header.split("/")[:2])
    allowed = _allowed(CXX, room)
    return used == room or allowed is None or used.rpartition("/")[2] in allowed


def _allowed(table, room):
    if room not in table:
        raise SystemExit(f".ci/layers.py does not know {room}: say there what it may use")
    return table[room]


def _python_room(parts):
    """The room of a module, by the parts of its path or name; None outside of the package."""
    if parts[0] in ("sparse_operation_kit", "distributed_embeddings"):  # the faces' aliases
        return f"sok_compat/{parts[0]}"
    if parts[0] != "sok_compat":
        return None
    is_root = len(parts) == 1 or parts[1] == "__init__"
    return "sok_compat" if is_root else f"sok_compat/{parts[1]}"


def _imported(node, path):
    """Full names of the modules that a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    package = path.parts[: len(path.parts) - node.level] if node.level else ()
    base = ".".join((*package, *([node.module] if node.module else [])))
    if base != "sok_compat":
        return [base]
    # What the root has: a room, or a name that it takes from the face.
    names = [f"{base}.{alias.name}" for alias in node.names]
    return [name if _python_room(name.split(".")) in PYTHON else base for name in names]


def main():
    """Exits with status 1, after a message for each, where something is out of the picture."""
    found = []
    for path in sorted(Path("sok_compat").rglob("*.py")):
        if path.name != "_build_info.py":
            found += python_problems(path, path.read_text(encoding="utf-8"))
    for suffix in ("cc", "h", "cu", "cuh"):
        for path in sorted(Path("ops").rglob(f"*.{suffix}")):
            found += cxx_problems(path, path.read_text(encoding="utf-8"))
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
