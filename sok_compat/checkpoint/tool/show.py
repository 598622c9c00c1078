# SPDX-License-Identifier: Apache-2.0
"""`show`: prints the contents of a checkpoint or a folder of dumps."""

from __future__ import annotations

import argparse
import textwrap

from sok_compat.checkpoint.files.increments import increments_of
from sok_compat.checkpoint.files.saved_tables import open_saved
from sok_compat.checkpoint.tool.sizes import bytes_text, counted

_MOST_NAMES = 8


def run(options: argparse.Namespace) -> int:
    """Prints the contents; returns the exit status."""
    saved = open_saved(options.path, options.key_dtype)
    print(_title(saved))
    for table in saved.tables.values():
        print(*_lines_of_table(table), sep="\n")
    for changes in saved.changes:
        print(_line_of_changes(saved.bundle, changes))
    if not saved.tables and saved.base is None:
        print("  no table in it")
    if saved.others:
        print(_others(saved))
    for prefix in increments_of(saved.bundle) if saved.bundle is not None else ():
        print(f"  increment {prefix}")
    if options.no_verify:
        print("checksums not verified")
    else:
        print(_verified(saved), flush=True)
    return 0


def _title(saved):
    if saved.bundle is None:
        return f"{saved.path}: {counted(len(saved.tables), 'table')} as files of sok.Saver"
    files = counted(saved.bundle.num_shards, "data file")
    what = "checkpoint" if saved.base is None else f"increment of {saved.base}"
    return f"{saved.path}: {what}, {files}, {bytes_text(saved.bundle.data_bytes)}"


def _line_of_changes(bundle, changes):
    num_bytes = sum(bundle.tensors[name].num_bytes for name in changes.tensors)
    num_keys, num_gone = changes.keys.shape[0], changes.gone.shape[0]
    gone = f", {counted(num_gone, 'key')} gone" if num_gone else ""
    return (
        f"  table {changes.name}: {counted(num_keys, 'key')} new or changed{gone}, dim "
        f"{_width(changes.rows)}, {bytes_text(num_bytes)}"
    )


def _lines_of_table(table):
    planes = table.planes.values()
    num_bytes = table.keys.num_bytes + sum(plane.num_bytes for plane in planes)
    paths = {path for array in (table.keys, *planes) for path in array.paths}
    parts = f"{counted(table.num_parts, 'part')}, " if table.num_parts > 1 else ""
    yield (
        f"  table {table.name}: {counted(table.num_keys, 'key')} {table.keys.dtype.name}, dim "
        f"{_width(table.rows)}, layout {table.layout}, {parts}{bytes_text(num_bytes)} in "
        f"{counted(len(paths), 'file')}"
    )
    for name, slot in table.slots.items():
        yield f"    slot {name}: width {_width(slot)}"
    if table.recorded:
        yield f"    recorded of each key: {', '.join(table.recorded)}"
    if table.num_without_row:
        yield f"    {counted(table.num_without_row, 'key')} more without a row"


def _width(rows):
    """Numbers in a row, with their dtype unless it is float32."""
    return str(rows.shape[1]) + f" {rows.stored}" * (rows.stored != "float32")


def _others(saved):
    num_bytes = sum(saved.bundle.tensors[name].num_bytes for name in saved.others)
    names = ", ".join(saved.others[:_MOST_NAMES])
    more = f" and {len(saved.others) - _MOST_NAMES} more" * (len(saved.others) > _MOST_NAMES)
    text = f"  {counted(len(saved.others), 'other tensor')}, {bytes_text(num_bytes)}: {names}{more}"
    unbroken = {"break_long_words": False, "break_on_hyphens": False}  # names
    return textwrap.fill(text, 100, subsequent_indent="    ", **unbroken)


def _verified(saved):
    """Reads all files; returns words on their checksums."""
    if saved.bundle is not None:
        left = [name for name in saved.bundle.tensors if not saved.bundle.check(name)]
        return "checksums verified" + (f", but not of {', '.join(left)}" if left else "")
    without = []
    for table in saved.tables.values():
        for array in (table.keys, table.rows):
            array.check()
            without += [] if array.is_checked else array.paths
    return "checksums verified" + (f"; there are none for {', '.join(without)}" if without else "")
