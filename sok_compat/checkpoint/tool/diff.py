# SPDX-License-Identifier: Apache-2.0
"""`diff`: prints the differences between two checkpoints."""

from __future__ import annotations

import argparse

from sok_compat.checkpoint.files.compare import compare_tables
from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.files.saved_tables import open_saved
from sok_compat.checkpoint.tool.sizes import counted


def run(options: argparse.Namespace) -> int:
    """Prints the differences; returns the exit status, 1 if there are any."""
    first = open_saved(options.path, options.key_dtype)
    second = open_saved(options.other, options.key_dtype)
    for saved in (first, second):
        saved.check_is_whole()
    pairs = _pairs(first, second, options)
    are_equal = True
    if options.table is None:
        are_equal = _print_tables_in_one(first, second)
    for name, other in pairs:
        are_equal &= _print_table(first.table(name), second.table(other))
    if options.table is None and first.bundle and second.bundle:
        are_equal &= _print_others(first, second)
    return 0 if are_equal else 1


def _pairs(first, second, options):
    if options.table is not None:
        return [(options.table, options.other_table or options.table)]
    if options.other_table is not None:
        raise FileError("--as names the table in OTHER that --table is compared with: give both")
    if not first.tables and not second.tables and not (first.bundle and second.bundle):
        raise FileError(f"neither {first.path} nor {second.path} has a table")
    return [(name, name) for name in first.tables if name in second.tables]


def _print_tables_in_one(first, second):
    are_equal = True
    for saved, other in ((first, second), (second, first)):
        for name in saved.tables:
            if name not in other.tables:
                print(f"table {name}: only in {saved.path}")
                are_equal = False
    return are_equal


def _print_table(table, other):
    for each in (table, other):
        for array in (each.keys, *each.planes.values()):
            array.check()
    slot_names = {
        name: name.replace(table.name, other.name, 1) if name not in other.slots else name
        for name in table.slots
    }
    found = compare_tables(table, other, slot_names)
    print(f"table {table.name}: {', '.join(_counts(found))}")
    for name, plane in found.planes.items():
        if plane.problem is not None:
            print(f"  {name}: {plane.problem}")
        elif plane.num_rows:
            differ = "differs" if plane.num_rows == 1 else "differ"
            rows = f"{counted(plane.num_rows, 'row')} {differ}"
            print(f"  {name}: {rows}, by at most {plane.largest:.6g}")
    if found.planes_in_one:
        print(f"  only in one: {', '.join(found.planes_in_one)}")
    return found.is_empty


def _counts(found):
    yield f"{counted(found.num_common, 'key')} in both"
    counts = (found.only_in_first, found.only_in_second)
    for which, count, examples in zip(("first", "second"), counts, found.examples):
        if count:
            shown = ", ".join(map(str, examples)) + ", ..." * (count > len(examples))
            yield f"{count} only in the {which} ({shown})"
    if found.is_empty:
        yield "equal"


def _print_others(first, second):
    """Prints differences in tensors that belong to no table; returns whether they are equal."""
    are_equal = True
    for name in sorted({*first.others, *second.others}):
        found = [_content(each.bundle, name) for each in (first, second)]
        if found[0] != found[1]:
            are_equal = False
            where = "differs"
            if None in found:
                where = f"only in {(first if found[1] is None else second).path}"
            print(f"tensor {name}: {where}")
    return are_equal


def _content(bundle, name):
    """A value that is equal for equal tensors; None if there is no such tensor.

    Raises:
      FileError: its checksum does not match, and says nothing of the tensor.
    """
    if name not in bundle.tensors:
        return None
    bundle.check(name)
    return bundle.signature(name)
