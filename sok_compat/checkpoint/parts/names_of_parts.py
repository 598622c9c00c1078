# SPDX-License-Identifier: Apache-2.0
"""The place of the part in the checkpoint names of a partitioned table and its slots."""

from __future__ import annotations

from collections.abc import Iterable

from sok_compat.tables.stored.table_part import TablePart
from sok_compat.tables.table import Table


def suffix_of(table: Table) -> str:
    """The end of a part's name; '' for a whole table."""
    return table.storage.part.suffix if table.storage.part else ""


def whole_name(table: Table) -> str:
    """The name of the table, or of the table that it is a part of."""
    return table.table_name.removesuffix(suffix_of(table))


def around_part(name: str, wholes: Iterable[str], part: TablePart | None) -> tuple[str, str]:
    """(head, tail) of a name; other parts' names have '/part_<i>' between them.

    Scopes may precede a table's name, and a slot's name follow it. A name without the part, as a
    saver's caller may give, gets it at the end.

    Args:
      name: of a table, a part, a slot or a scalar of an optimizer.
      wholes: possible names of the table in `name`, if it is whole.
      part: the table's part; None if it is whole.
    """
    if part:
        head, suffix, tail = f"{name}/".rpartition(f"{part.suffix}/")
        return (head, f"/{tail}"[:-1] if tail else "") if suffix else (name, "")
    for whole in wholes:
        before = f"/{name}/".rfind(f"/{whole}/")
        if before >= 0:
            end = before + len(whole)
            return name[:end], name[end:]
    return name, ""
