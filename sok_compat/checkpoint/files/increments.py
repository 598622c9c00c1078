# SPDX-License-Identifier: Apache-2.0
"""The table changes in an increment, and the increments of a checkpoint."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import os

from sok_compat.checkpoint.files.bundle import Bundle
from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.files.series_entry import (
    GONE,
    GONE_OF_BUCKETS,
    INCREMENT,
    SERIES,
    SeriesEntry,
)


@dataclasses.dataclass(frozen=True)
class TableChanges:
    """The changes of a table.

    Attributes:
      name: of the table.
      num_keys: number of keys that are new, or whose rows or slots have changed.
      dim: of the table.
      num_gone: number of removed keys.
      tensors: names of its tensors in the increment.
    """

    name: str
    num_keys: int
    dim: int
    num_gone: int
    tensors: tuple


def entry_in(bundle: Bundle) -> SeriesEntry | None:
    """The SeriesEntry of a checkpoint; None if it belongs to no series.

    Raises:
      FileError: the entry is damaged.
    """
    if SERIES not in bundle.tensors:
        return None
    return SeriesEntry.parse(bundle.strings(SERIES), bundle.prefix)


def chain_of(bundle: Bundle) -> list[Bundle]:
    """The Bundles that a checkpoint consists of: a whole one, each increment, and itself, last.

    Raises:
      FileError: one is missing, or has been replaced since the next was saved.
    """
    chain, entry = [bundle], entry_in(bundle)
    while entry is not None and entry.base_name is not None:
        prefix = os.path.join(os.path.dirname(bundle.prefix), entry.base_name)
        what = f"{chain[-1].prefix} holds the changes since {prefix}"
        if any(prefix == each.prefix for each in chain):
            raise FileError(f"{prefix}.index is an increment of itself")
        if not os.path.exists(f"{prefix}.index"):
            raise FileError(f"{what}, but {prefix}.index is missing")
        chain.append(Bundle(prefix))
        found = entry_in(chain[-1])
        if found is None or found.id != entry.base_id:
            raise FileError(f"{what}, but {prefix}.index has been replaced since")
        entry = found
    return chain[::-1]


def changes_in(bundle: Bundle) -> list[TableChanges]:
    """The changes in an increment, sorted by table; each part of a table counts as one."""
    of_rows = _changes(bundle, f"/keys{INCREMENT}", f"/rows{INCREMENT}", GONE)
    in_buckets = _changes(bundle, f"{INCREMENT}-keys", f"{INCREMENT}-values", GONE_OF_BUCKETS)
    return sorted([*of_rows, *in_buckets], key=lambda each: each.name)


def _changes(bundle, keys, rows, gone):
    """Yields the TableChanges of tables whose tensors have these endings."""
    for name in [each for each in bundle.tensors if each.endswith(gone)]:
        table = name.removesuffix(gone)
        entries = [bundle.tensors.get(f"{table}{each}") for each in (keys, rows, gone)]
        if None in entries or [len(each.shape) for each in entries] != [1, 2, 1]:
            continue
        of_table = tuple(
            each
            for each in bundle.tensors
            if each.startswith(f"{table}{INCREMENT}")
            or (INCREMENT in each and f"/{table}/" in f"/{each}")
        )
        num_keys, dim, num_gone = entries[0].shape[0], entries[1].shape[1], entries[2].shape[0]
        yield TableChanges(table, num_keys, dim, num_gone, of_table)


def increments_of(bundle: Bundle) -> list[str]:
    """Prefixes of the increments in the same folder that need a checkpoint, in their order.

    Files that cannot be read are skipped.
    """
    entry = entry_in(bundle)
    if entry is None:
        return []
    of_base: dict[str, list[tuple[str, str]]] = {}
    for index in glob.glob(os.path.join(glob.escape(os.path.dirname(bundle.prefix)), "*.index")):
        with contextlib.suppress(FileError, OSError):
            other = Bundle(index[: -len(".index")])
            found = entry_in(other)
            if found is not None and found.base_id is not None:
                of_base.setdefault(found.base_id, []).append((other.prefix, found.id))
    prefixes, ids = [], [entry.id]
    while ids:
        for prefix, its_id in sorted(of_base.pop(ids.pop(0), ())):
            prefixes.append(prefix)
            ids.append(its_id)
    return prefixes
