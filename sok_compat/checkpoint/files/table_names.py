# SPDX-License-Identifier: Apache-2.0
"""Finds the tables in a checkpoint, by the names, shapes and dtypes of its tensors."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping

from sok_compat.checkpoint.files.stored_array import TWO_BYTES
from sok_compat.engine import _engine

ROWS, BUCKETS = "rows", "buckets"
RECORDED: tuple[str, ...] = _engine.KEY_NUMBERS[::-1]  # of each key
_OF_PART = re.compile(r"(?P<head>.+)/part_(?P<number>\d+)(?P<tail>(?:/.*)?)")
_KEY_DTYPES = ("int64", "int32")
_ROW_DTYPES = ("float32", *TWO_BYTES)


@dataclasses.dataclass(frozen=True)
class PlaneNames:
    """Names of the tensors, one for each part, that hold a plane or one number for each key."""

    name: str
    tensors: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class TableNames:
    """Names of the tensors that hold one table.

    Attributes:
      name: of the table, without its part.
      layout: ROWS: `<name>/keys`, `<name>/rows`, one tensor for each slot, and `<name>/<number>`
        for RECORDED numbers. BUCKETS: nine tensors for the table, or each of
        its parts, and for each slot.
      keys: one for each part.
      rows: as keys.
      slots: PlaneNames, sorted by name.
      recorded: PlaneNames of the RECORDED numbers that were saved.
      keys_without_row: one for each part, if the layout has them.
      others: tensors with redundant information.
    """

    name: str
    layout: str
    keys: tuple[str, ...]
    rows: tuple[str, ...]
    slots: tuple[PlaneNames, ...]
    recorded: tuple[PlaneNames, ...] = ()
    keys_without_row: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def tensors(self) -> set[str]:
        """All names."""
        planes = [name for plane in (*self.slots, *self.recorded) for name in plane.tensors]
        return {*self.keys, *self.rows, *planes, *self.keys_without_row, *self.others}


def find_tables(tensors: Mapping[str, tuple[str, Iterable[int]]]) -> list[TableNames]:
    """The tables in a checkpoint, sorted by name; an increment has none."""
    known = {name: (dtype, tuple(shape)) for name, (dtype, shape) in tensors.items()}
    found = [*_in_rows(known), *_in_buckets(known)]
    return sorted(found, key=lambda table: (table.name, table.layout))


def without_part(name: str) -> str:
    """The name of a table, or of a slot, without that of its part."""
    match = _OF_PART.fullmatch(name)
    return match["head"] + match["tail"] if match else name


def _in_rows(tensors):
    sizes = {}
    for name, (dtype, shape) in tensors.items():
        owner = name[: -len("/keys")]
        is_keys = name.endswith("/keys") and owner and dtype == "int64" and len(shape) == 1
        if is_keys and _is_plane(tensors, f"{owner}/rows", shape[0]):
            sizes[owner] = shape[0]
    taken = {f"{owner}/{what}" for owner in sizes for what in ("keys", "rows")}
    slots = {owner: [] for owner in sizes}
    for name in sorted(tensors.keys() - taken):
        owner = _owner(name, sizes, lambda each, slot=name: _is_plane(tensors, slot, sizes[each]))
        if owner is not None:
            slots[owner].append(PlaneNames(name, (name,)))
    for owner in sizes:
        keys, rows = (f"{owner}/keys",), (f"{owner}/rows",)
        recorded = _recorded(tensors, [("int64", (sizes[owner],))], [f"{owner}/"])
        yield TableNames(owner, ROWS, keys, rows, tuple(slots[owner]), recorded)


def _owner(name, owners, fits):
    """The table that a slot belongs to, or None.

    A slot's name contains the table's; the longest such table counts. In a tf.train.Checkpoint,
    whose names are paths of objects, only a single fitting table counts.
    """
    fitting = [owner for owner in owners if fits(owner)]
    named = [owner for owner in fitting if f"/{owner}/" in f"/{name}/"]
    if named:
        return max(named, key=len)
    if "/.ATTRIBUTES/" in name:
        return None
    objects = [owner for owner in fitting if owner.endswith("/.ATTRIBUTES/table")]
    return objects[0] if len(objects) == 1 else None


def _in_buckets(tensors):
    planes = {}  # {(head, tail): {number of the part, or None: stem}}
    for name, (dtype, shape) in tensors.items():
        stem, _, last = name.rpartition("-")
        is_whole = stem and not stem.endswith(_engine.INCREMENT)
        is_keys = is_whole and last == "keys" and dtype in _KEY_DTYPES and len(shape) == 1
        if is_keys and _is_plane(tensors, f"{stem}-values", shape[0]):
            match = _OF_PART.fullmatch(stem)
            title = (match["head"], match["tail"]) if match else (stem, "")
            planes.setdefault(title, {})[int(match["number"]) if match else None] = stem
    # A whole table beside parts of the same name is a separate table.
    planes = {
        (*title, is_whole): {n: stem for n, stem in stems.items() if (n is None) == is_whole}
        for title, stems in planes.items()
        for is_whole in {number is None for number in stems}
    }
    slots = _slots_of_planes(tensors, planes)
    owned = {plane for of_table in slots.values() for plane in of_table}
    for plane in sorted(planes.keys() - owned):
        yield _table_in_buckets(tensors, planes, plane, sorted(slots.get(plane, ())))


def _slots_of_planes(tensors, planes):
    """{plane: [its slots]}: planes named below it, with as many keys in each part."""

    def sizes(plane):
        return {n: tensors[f"{stem}-keys"][1] for n, stem in planes[plane].items()}

    slots = {}
    for plane in planes:
        name = _plane_name(plane)
        owners = [
            owner
            for owner in planes
            if owner != plane
            and f"/{_plane_name(owner)}/" in f"/{name}"
            and sizes(owner) == sizes(plane)
        ]
        if owners:
            # The shortest name: a slot has no slots.
            slots.setdefault(min(owners, key=lambda each: len(_plane_name(each))), []).append(plane)
    return slots


def _plane_name(plane):
    head, tail, _ = plane
    return head + tail


def _table_in_buckets(tensors, planes, plane, slots):
    stems = _in_order(planes[plane])
    keys, rows = ([f"{stem}-{what}" for stem in stems] for what in ("keys", "values"))
    expected = [("int64", tensors[name][1]) for name in keys]
    heads = [f"{stem}-" for stem in stems]
    recorded = (
        () if expected == [("int64", (0,))] * len(stems) else _recorded(tensors, expected, heads)
    )
    without_row = [f"{stem}-keys_filtered" for stem in stems]
    found = TableNames(
        _plane_name(plane),
        BUCKETS,
        tuple(keys),
        tuple(rows),
        tuple(
            PlaneNames(_plane_name(slot), tuple(f"{s}-values" for s in _in_order(planes[slot])))
            for slot in slots
        ),
        recorded,
        tuple(name for name in without_row if len(tensors.get(name, ("", ()))[1]) == 1),
    )
    all_stems = [stem for each in (plane, *slots) for stem in planes[each].values()]
    others = {n for n in tensors if n.rpartition("-")[0] in all_stems} - found.tensors
    return dataclasses.replace(found, others=tuple(sorted(others)))


def _recorded(tensors, expected, heads):
    """PlaneNames of the numbers that were recorded for each key, by the heads of their names."""
    names = [PlaneNames(what, tuple(head + what for head in heads)) for what in RECORDED]
    return tuple(
        plane for plane in names if [tensors.get(name) for name in plane.tensors] == expected
    )


def _in_order(stems):
    return [stems[number] for number in sorted(stems, key=lambda number: number or 0)]


def _is_plane(tensors, name, num_rows):
    dtype, shape = tensors.get(name, ("", ()))
    return dtype in _ROW_DTYPES and len(shape) == 2 and shape[0] == num_rows and shape[1] >= 1
