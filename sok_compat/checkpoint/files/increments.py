# SPDX-License-Identifier: Apache-2.0
"""The table changes in an increment, and the increments of a checkpoint."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import os

from sok_compat.checkpoint.files.bundle import Bundle
from sok_compat.checkpoint.files.file_error import FileError, as_file_errors
from sok_compat.checkpoint.files.stored_array import StoredArray, joined
from sok_compat.checkpoint.files.table_names import without_part
from sok_compat.engine import _engine

SERIES: str = _engine.SERIES  # the tensor with a checkpoint's entry in its series
INCREMENT: str = _engine.INCREMENT  # suffix of the names in a whole checkpoint

# Endings of the tensors, one of each table, with what later keys' first values are drawn from, and
# of its keys.
SEEDS: dict[str, str] = {"/seed": "/keys", _engine.SEED_OF_BUCKETS: "-keys"}

# Endings of the tensors with the keys, their rows, and the removed keys.
_OF_ROWS = (f"/keys{INCREMENT}", f"/rows{INCREMENT}", _engine.GONE)
_OF_BUCKETS = (f"{INCREMENT}-keys", f"{INCREMENT}-values", _engine.GONE_OF_BUCKETS)


@dataclasses.dataclass(frozen=True)
class TableChanges:
    """The changes of a table, in an increment.

    Attributes:
      name: of the table, without its part.
      tensors: names of all its tensors.
      keys: those that are new, or whose rows or slots have changed.
      rows: of the keys.
      gone: removed keys.
    """

    name: str
    tensors: set[str]
    keys: StoredArray
    rows: StoredArray
    gone: StoredArray


def chain_of(prefix: str) -> list[str]:
    """Prefixes of the checkpoints that one consists of: a whole one, each increment, itself last.

    Raises:
      FileError: one is missing, or has been replaced since the next was saved.
    """
    with as_file_errors():
        return _engine.chain_of(prefix)


def changes_in(bundle: Bundle) -> list[TableChanges]:
    """The changes in an increment, sorted by table."""
    parts: dict[str, list[tuple[str, list[str]]]] = {}  # {table: [(stem, names of the arrays)]}
    for endings in (_OF_ROWS, _OF_BUCKETS):
        for gone in [each for each in bundle.tensors if each.endswith(endings[-1])]:
            stem = gone.removesuffix(endings[-1])
            arrays = [f"{stem}{each}" for each in endings]
            entries = [bundle.tensors.get(each) for each in arrays]
            if [each and len(each.shape) for each in entries] == [1, 2, 1]:
                name = without_part(stem) if endings is _OF_BUCKETS else stem
                parts.setdefault(name, []).append((stem, arrays))
    return [_changes(bundle, name, parts[name]) for name in sorted(parts)]


def _changes(bundle, name, parts):
    tensors = {
        each
        for each in bundle.tensors
        for stem, _ in parts
        if each.startswith(f"{stem}{INCREMENT}")
        or (INCREMENT in each and f"/{stem}/" in f"/{each}")
    }
    arrays = zip(*(names for _, names in parts))
    return TableChanges(name, tensors, *(joined([bundle.array(n) for n in ns]) for ns in arrays))


def increments_of(bundle: Bundle) -> list[str]:
    """Prefixes of the increments in the same folder that need a checkpoint, in their order.

    Files that cannot be read are skipped.
    """
    entry = bundle.series()
    if entry is None:
        return []
    of_base: dict[str | None, list[tuple[str, str]]] = {}
    for index in glob.glob(os.path.join(glob.escape(os.path.dirname(bundle.prefix)), "*.index")):
        with contextlib.suppress(FileError):
            other = Bundle(index.removesuffix(".index"))
            its_id, base_id = other.series() or ("", None)
            if base_id is not None:
                of_base.setdefault(base_id, []).append((other.prefix, its_id))
    prefixes, ids = [], [entry[0]]
    while ids:
        for prefix, its_id in sorted(of_base.pop(ids.pop(0), ())):
            prefixes.append(prefix)
            ids.append(its_id)
    return prefixes
