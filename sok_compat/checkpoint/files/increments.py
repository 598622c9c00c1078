# SPDX-License-Identifier: Apache-2.0
"""What an increment holds of tables, and which increments there are of a checkpoint."""

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
    """What has changed of a table.

    Attributes:
      name: of the table.
      num_keys: of those that are new, or whose rows or slots are other ones.
      dim: of the table.
      num_gone: keys that have no rows any more.
      tensors: names of what is stored of it.
    """

    name: str
    num_keys: int
    dim: int
    num_gone: int
    tensors: tuple


def entry_in(bundle):
    """The SeriesEntry of a Bundle; None: it is of no series.

    Raises:
      FileError: it is not as it was written.
    """
    if SERIES not in bundle.tensors:
        return None
    return SeriesEntry.parse(bundle.strings(SERIES), bundle.prefix)


def chain_of(bundle):
    """The Bundles that one is made of: a whole checkpoint, each increment, and itself, last.

    Raises:
      FileError: one is missing, or is another one than it was when the next was saved.
    """
    chain, entry = [bundle], entry_in(bundle)
    while entry is not None and entry.base_name is not None:
        prefix = os.path.join(os.path.dirname(bundle.prefix), entry.base_name)
        what = f"{chain[-1].prefix} holds what has changed since {prefix}"
        if not os.path.exists(f"{prefix}.index"):
            raise FileError(f"{what}, and {prefix}.index is missing")
        chain.append(Bundle(prefix))
        found = entry_in(chain[-1])
        if found is None or found.id != entry.base_id:
            raise FileError(f"{what}, but {prefix}.index is another one than it was then")
        entry = found
    return chain[::-1]


def changes_in(bundle):
    """[TableChanges] of an increment, by name; of a table in parts, of each."""
    of_rows = _changes(bundle, f"/keys{INCREMENT}", f"/rows{INCREMENT}", GONE)
    in_buckets = _changes(bundle, f"{INCREMENT}-keys", f"{INCREMENT}-values", GONE_OF_BUCKETS)
    return sorted([*of_rows, *in_buckets], key=lambda each: each.name)


def _changes(bundle, keys, rows, gone):
    """Of tables whose tensors have these endings."""
    for name in [each for each in bundle.tensors if each.endswith(gone)]:
        table = name.removesuffix(gone)
        entries = [bundle.tensors.get(f"{table}{each}") for each in (keys, rows, gone)]
        if None in entries:
            continue
        of_table = tuple(
            each
            for each in bundle.tensors
            if each.startswith(f"{table}{INCREMENT}")
            or (INCREMENT in each and f"/{table}/" in f"/{each}")
        )
        num_keys, dim, num_gone = entries[0].shape[0], entries[1].shape[1], entries[2].shape[0]
        yield TableChanges(table, num_keys, dim, num_gone, of_table)


def increments_of(bundle):
    """Prefixes of those in its folder that need it, in their order; others are passed over."""
    entry = entry_in(bundle)
    if entry is None:
        return []
    of_base = {}
    for index in glob.glob(os.path.join(glob.escape(os.path.dirname(bundle.prefix)), "*.index")):
        with contextlib.suppress(FileError, OSError):
            other = Bundle(index[: -len(".index")])
            found = entry_in(other)
            if found is not None and found.base_id is not None:
                of_base.setdefault(found.base_id, []).append((other.prefix, found.id))
    found, ids = [], [entry.id]
    while ids:
        for prefix, its_id in sorted(of_base.pop(ids.pop(0), ())):
            found.append(prefix)
            ids.append(its_id)
    return found
