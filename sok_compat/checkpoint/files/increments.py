# SPDX-License-Identifier: Apache-2.0
"""The table changes in an increment, and the increments of a checkpoint."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import os

from sok_compat.checkpoint.files.bundle import Bundle
from sok_compat.checkpoint.files.file_error import FileError, as_file_errors
from sok_compat.engine import _engine

SERIES: str = _engine.SERIES  # the tensor with a checkpoint's entry in its series
INCREMENT: str = _engine.INCREMENT  # suffix of the names in a whole checkpoint


@dataclasses.dataclass(frozen=True)
class TableChanges:
    """The changes of a table.

    Attributes:
      name: of the table.
      num_keys: number of keys that are new, or whose rows or slots have changed.
      dim: of the table.
      num_gone: number of removed keys.
      tensors: names of its tensors in the increment.
      arrays: names of those of the keys, their rows, and the removed keys.
    """

    name: str
    num_keys: int
    dim: int
    num_gone: int
    tensors: tuple
    arrays: tuple


def chain_of(prefix: str) -> list[str]:
    """Prefixes of the checkpoints that one consists of: a whole one, each increment, itself last.

    Raises:
      FileError: one is missing, or has been replaced since the next was saved.
    """
    with as_file_errors():
        return _engine.chain_of(prefix)


def changes_in(bundle: Bundle) -> list[TableChanges]:
    """The changes in an increment, sorted by table; each part of a table counts as one."""
    of_rows = _changes(bundle, f"/keys{INCREMENT}", f"/rows{INCREMENT}", _engine.GONE)
    in_buckets = _changes(
        bundle, f"{INCREMENT}-keys", f"{INCREMENT}-values", _engine.GONE_OF_BUCKETS
    )
    return sorted([*of_rows, *in_buckets], key=lambda each: each.name)


def _changes(bundle, keys, rows, gone):
    """Yields the TableChanges of tables whose tensors have these endings."""
    for name in [each for each in bundle.tensors if each.endswith(gone)]:
        table = name.removesuffix(gone)
        arrays = tuple(f"{table}{each}" for each in (keys, rows, gone))
        entries = [bundle.tensors.get(each) for each in arrays]
        if None in entries or [len(each.shape) for each in entries] != [1, 2, 1]:
            continue
        of_table = tuple(
            each
            for each in bundle.tensors
            if each.startswith(f"{table}{INCREMENT}")
            or (INCREMENT in each and f"/{table}/" in f"/{each}")
        )
        num_keys, dim, num_gone = entries[0].shape[0], entries[1].shape[1], entries[2].shape[0]
        yield TableChanges(table, num_keys, dim, num_gone, of_table, arrays)


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
