# SPDX-License-Identifier: Apache-2.0
"""Checks that imports and includes stay within the picture of docs/understand/architecture.md."""

import ast
import graphlib
import re
import sys
from pathlib import Path

# Room -> the rooms that it may use, besides itself. A room is a folder, or a module beside it.
_BELOW_TABLES = ("ranks", "runtime")
_BELOW_FACES = ("training", "serving", "checkpoint", "lookup", "tables", *_BELOW_TABLES, "engine")
PYTHON = {
    "sok_compat": ("sparse_operation_kit",),  # the root's own __init__.py
    "sok_compat/doctor": (*_BELOW_TABLES, "engine"),
    "sok_compat/demo": ("sparse_operation_kit",),
    "sok_compat/summaries": ("checkpoint", "tables", *_BELOW_TABLES),
    "sok_compat/run": ("tables", *_BELOW_TABLES),  # Horovod's names, for scripts without it
    "sok_compat/sparse_operation_kit": _BELOW_FACES,
    "sok_compat/deeprec": _BELOW_FACES,
    "sok_compat/distributed_embeddings": _BELOW_FACES,
    "sok_compat/training": ("tables", *_BELOW_TABLES),
    "sok_compat/serving": ("checkpoint", "lookup", "tables", *_BELOW_TABLES),
    "sok_compat/checkpoint": ("tables", *_BELOW_TABLES, "engine"),
    "sok_compat/lookup": ("tables", *_BELOW_TABLES),
    "sok_compat/tables": (*_BELOW_TABLES, "engine"),
    "sok_compat/ranks": ("runtime",),
    "sok_compat/runtime": (),
    "sok_compat/engine": (),
}
CXX = {
    "ops/tf": ("cpu", "cuda", "device", "exchange", "formats", "history", "engine", "base"),
    "ops/python": ("cpu", "cuda", "device", "formats", "history", "engine", "base"),
    "ops/cuda": ("device", "engine", "base"),
    "ops/cpu": ("engine", "base"),
    "ops/device": ("engine", "base"),
    "ops/exchange": ("engine", "base"),
    "ops/formats": ("engine", "base"),
    "ops/history": ("engine", "base"),
    "ops/engine": ("base",),
    "ops/base": (),
    "ops/tests": None,  # all of them
}
# Rooms and modules within rooms, lowest first: each may use those of lower rows. "." stands for the
# folder's other files.
WITHIN = {
    "ops/base": ((".",), ("threads", "memory")),
    "ops/cpu": (("rows",), ("index",), (".",)),
    "ops/device": (("memory",), ("kernels",), (".",)),
    "ops/exchange": ((".",), ("protocol", "payload", "transport"), ("rendezvous",)),
    "ops/formats": ((".",), ("files",), ("bundle", "dumps")),
    "ops/tf": (
        ("base",),
        ("steps",),
        ("tables/resource",),
        ("tables/contents",),
        ("ranks",),
        ("lookup", "checkpoint/bundle"),
        ("prefetch", "checkpoint/layout", "checkpoint/dump"),
        ("checkpoint/save", "checkpoint/restore"),
    ),
    "sok_compat/runtime": (
        (
            "_build_info",
            "processors",
            "seeds",
            "settings",
            "version",
            "error_texts",
            "checked",
            "checked_values",
            "known_words",
        ),
        ("built_libraries", "tf_versions"),
        ("devices", "graphs", "integrations", "op_arguments", "op_library"),
        ("strategies",),
    ),
    "sok_compat/ranks": (
        ("launched", "collectives", "shared_gradients", "shared_memory", "wire_dtype"),
        ("connection", "sentences_first"),
        ("exchange", "job"),
        ("horovod", "mpi"),
        ("current_job",),
        ("global_norm",),
        ("identity",),
        ("allgather_strings", "same_on_all_ranks"),
    ),
    "sok_compat/tables": (
        ("placement", "rows/row_scatters", "shows"),
        ("stored/saved_part", "stored/table_part", "words"),
        ("declared_capacity", "first_value", "key_history", "stored/storage", "table_arguments"),
        ("plane_variable",),
        ("interface",),
        ("history_methods", "resource_handles", "slots/slot_names", "stored", "undefined_methods"),
        ("known_tables", "rows"),
        ("slots",),
        ("table",),
    ),
    "sok_compat/training": (
        ("clipping", "plane_updates", "table_updates", "update_lock"),
        ("stock_rules",),
        ("fused_adam", "rows_in_use", "stock_updates"),
        ("row_wise_adagrad", "update_scope"),
        ("rows_of_gradients",),
    ),
    "sok_compat/serving": (
        ("arrays_of_tables", "request_gate", "stock_graph", "stock_updates", "versions"),
        ("saved_model", "stock_functions"),
        ("served_model",),
        ("follow", "follower"),
    ),
    "sok_compat/sparse_operation_kit": (
        ("core", "operations", "refused_ops", "utils", "variables"),
        ("communication", "embeddings", "saver", "tf"),
        ("distributed_variable", "optimizer", "optimizers", "raw_ops"),
        ("dynamic_variable", "kit_lib"),
        ("dump_load", "lookup"),
        ("experiment",),
    ),
    "sok_compat/distributed_embeddings": (
        ("python/ops", "version"),
        ("planning",),
        ("ids_of_owners", "input_parts", "integer_lookup", "owned_inputs", "training_helpers"),
        ("global_weights", "python/layers/embedding", "saved_tables"),
        ("distributed_embedding",),
        ("explanation",),
        ("python/layers/dist_model_parallel",),
    ),
    "sok_compat/checkpoint": (
        ("files",),
        ("streams", "tool"),
        ("parts",),
        ("loading", "objects", "sessions"),
        ("saver", "__main__"),
    ),
    "sok_compat/lookup": (("gradients", "prefetching"), (".",)),
    "sok_compat/deeprec": (
        ("namespace", "variables"),
        ("collective",),
        ("optimizer_rules", "lookups"),
        ("columns",),
        ("core", "python"),  # the module paths that it mirrors
        ("contrib",),
    ),
}
# Who may name the modules of what connects ranks: all else asks sok_compat/ranks.
KNOW_RANKS = {
    "horovod": ("sok_compat/ranks/horovod", "sok_compat/run", "sok_compat/doctor"),
    "mpi4py": ("sok_compat/ranks/mpi", "sok_compat/run"),
}
# Who may include headers of the exchange: ops of one process have none.
KNOW_EXCHANGE = (
    *("ops/exchange/", "ops/tests/", "ops/tf/ranks/", "ops/tf/lookup/exchange"),
    "ops/tf/checkpoint/restore/restored_together.cc",
)
# Headers of others -> the only rooms that may include them.
FOREIGN = {
    r"tensorflow/": ("ops/tf", "ops/tests"),
    r"nanobind/": ("ops/python",),
    r"(cuda|cub/|thrust/|nccl)": ("ops/cuda", "ops/tests"),
}

# Names of faces, which rooms below them do not say: a table carries its face's (tables/words.py).
_FACE_WORDS = re.compile(
    r"max_vocabulary_size_per_gpu|slot_num|nnz_per_slot|use_hashtable|m_var_name|sok\.Init|All2All"
)

_INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]')


def python_problems(path, text):
    """Messages on the imports of one file below sok_compat, also of those inside functions."""
    room = _python_room(path.with_suffix("").parts)
    for node in ast.walk(ast.parse(text)):
        for module in _imported(node, path):
            used = _python_room(module.split("."))
            is_allowed = used in (None, room) or used.rpartition("/")[2] in _allowed(PYTHON, room)
            if not (is_allowed and _may_use_within(path, _file_of(module))):
                yield f"{path}:{node.lineno}: {path.parent} may not import {module}"
        for package, rooms in KNOW_RANKS.items():
            if _names(package, node) and not path.with_suffix("").as_posix().startswith(rooms):
                yield f"{path}:{node.lineno}: only {rooms[0]} knows the modules of {package}"


def face_words(path, text):
    """Messages on words of a face in a file below the faces."""
    room = "/".join(path.parts[:2])
    if path.parts[0] == "sok_compat" and room.rpartition("/")[2] not in _BELOW_FACES:
        return
    for number, line in enumerate(text.splitlines(), 1):
        found = _FACE_WORDS.search(line)
        if found and room != "ops/tests":
            yield f"{path}:{number}: {found[0]} is a word of a face: say what it means"


def cxx_problems(path, text):
    """Messages on the includes of one file below ops."""
    room = "/".join(path.parts[:2])
    for number, line in enumerate(text.splitlines(), 1):
        included = _INCLUDE.match(line)
        if not included:
            continue
        header = included[1]
        if not _may_include(room, header) or not _may_use_within(path, Path(header)):
            yield f"{path}:{number}: {path.parent} may not include {header}"
        elif header.startswith("ops/exchange/") and not path.as_posix().startswith(KNOW_EXCHANGE):
            yield f"{path}:{number}: an op of one process may not include {header}"


def _may_include(room, header):
    for pattern, rooms in FOREIGN.items():
        if re.match(pattern, header):
            return room in rooms
    if not header.startswith("ops/"):
        return True
    used = "/".join(header.split("/")[:2])
    allowed = _allowed(CXX, room)
    return used == room or allowed is None or used.rpartition("/")[2] in allowed


def circle(imports):
    """A message on one circle of files that import each other, if there is one.

    Args:
      imports: {path: the paths that it imports, also for types only}.
    """
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        yield f"a circle of imports: {' <- '.join(map(str, error.args[1]))}"


def imports_of(path, text):
    """The paths of the files of the package that one of them imports."""
    used = {module for node in ast.walk(ast.parse(text)) for module in _imported(node, path)}
    return {_file_of(module) for module in used if module.startswith("sok_compat.")} - {path}


def _may_use_within(path, used):
    """Whether the file `path` may use the file `used`, as far as both are of one room."""
    own, other = _row_of(path), _row_of(used)
    if own is None or other is None or own[0] != other[0]:
        return True
    return own == other or other[1] < own[1]


def _row_of(path):
    """(room of WITHIN, number of the row, room within it); None where the file is in none."""
    for room, rows in WITHIN.items():
        if not path.is_relative_to(room):
            continue
        name = path.relative_to(room).with_suffix("").as_posix()
        for number, row in enumerate(rows):
            for inner in row:
                if name == inner or name.startswith(f"{inner}/"):
                    return room, number, inner
        own = [number for number, row in enumerate(rows) if "." in row]
        if own and "/" not in name:
            return room, own[0], "."
        if path.stem != "__init__":
            raise SystemExit(f".ci/layers.py does not know {path}: say in WITHIN what it may use")
    return None


def _file_of(module):
    path = Path(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _names(package, node):
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and re.fullmatch(rf"{package}(\.\w+)*", node.value)
    return any(module.split(".")[0] == package for module in _imported(node, Path()))


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
    names = [f"{base}.{alias.name}" for alias in node.names]
    return [name if _is_module(name) else base for name in names]


def _is_module(name):
    path = Path(*name.split("."))
    return path.is_dir() or any(path.with_suffix(suffix).exists() for suffix in (".py", ".pyi"))


def main():
    """Exits with status 1, after a message for each, where something is out of the picture."""
    found, imports = [], {}
    for path in sorted(Path("sok_compat").rglob("*.py")):
        if path.name != "_build_info.py":
            text = path.read_text(encoding="utf-8")
            found += [*python_problems(path, text), *face_words(path, text)]
            imports[path] = imports_of(path, text)
    found += circle(imports)
    for suffix in ("cc", "h", "cu", "cuh"):
        for path in sorted(Path("ops").rglob(f"*.{suffix}")):
            text = path.read_text(encoding="utf-8")
            found += [*cxx_problems(path, text), *face_words(path, text)]
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
