# SPDX-License-Identifier: Apache-2.0
"""Files of SparseOperationKit 2's dumps: an array behind a header of 296 bytes, and their note.

A table T has the files T-key, T-weight and T-<optimizer>-<slot>, with one key or row each in the
same order. The note T-note, which SparseOperationKit does not have, makes them one dump.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import fcntl
import os
import re
import secrets
import string
import struct
from collections.abc import Iterable, Mapping

import numpy as np

from sok_compat.checkpoint.files.dump_files import ID_DIGITS, folder_lock, match_note, until
from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.files.new_files import NewFile, commit
from sok_compat.checkpoint.files.stored_array import Extent, StoredArray

HEADER_BYTES = 296
_LAYOUT = struct.Struct(">256sI32sI")  # table, kind, slot, dtype; texts are right-justified
_DTYPES = tuple(map(np.dtype, ("<i4", "<i8", "<u4", "<u8", "<f2", "<f4", "<f8")))
_NOTE = re.compile(
    r"sok_compat-dump-2\nid ([0-9a-f]{24})\n((?:[^\n]+ \d+ bytes, CRC-32C \d+\n)*)end\n"
)
_LINE = re.compile(r"(.+) (\d+) bytes, CRC-32C (\d+)")


class Kind(enum.IntEnum):
    """What a file holds."""

    KEYS = 0
    ROWS = 1
    SLOT = 2


@dataclasses.dataclass(frozen=True)
class Header:
    """The first bytes of a file.

    table: name of the table; SparseOperationKit leaves it blank.
    kind: a Kind.
    slot: name of an optimizer's slot, or ''.
    dtype: of the array, little-endian.
    """

    table: str
    kind: Kind
    slot: str
    dtype: np.dtype

    def to_bytes(self) -> bytes:
        """The header as it is stored; longer names keep their ends."""
        table, slot = (
            text.encode()[-size:].rjust(size) for text, size in ((self.table, 256), (self.slot, 32))
        )
        return _LAYOUT.pack(table, self.kind, slot, _DTYPES.index(self.dtype))

    @classmethod
    def parse(cls, data: bytes, path: str) -> Header:
        """The header of a file.

        Raises:
          FileError: it is none.
        """
        if len(data) == HEADER_BYTES:
            table, kind, slot, dtype = _LAYOUT.unpack(data)
            if kind < len(Kind) and dtype < len(_DTYPES):
                texts = [text.decode("utf-8", "replace").strip(" \0") for text in (table, slot)]
                return cls(texts[0], Kind(kind), texts[1], _DTYPES[dtype])
        raise FileError(
            f"{path} does not begin with a header of {HEADER_BYTES} bytes as SparseOperationKit 2 "
            "writes it"
        )


def file_stem(table_name: str) -> str:
    """The beginning of a table's file names: its name, with '_' for punctuation."""
    return re.sub(f"[{re.escape(string.punctuation)}]", "_", table_name)


@dataclasses.dataclass(frozen=True)
class HeadedDump:
    """The dump of one table.

    keys: StoredArray [n], of an integer dtype.
    rows: StoredArray [n, dim].
    slots: {(optimizer, slot): StoredArray [n, width]}.
    """

    keys: StoredArray
    rows: StoredArray
    slots: dict[tuple[str, str], StoredArray]


def write_headed_dump(
    folder: str,
    table_name: str,
    slots: Iterable[tuple[str, str]],
    key_dtype: np.dtype,
    pieces: Iterable[tuple[np.ndarray, ...]],
) -> None:
    """Writes a dump, and replaces an earlier one of the same table atomically.

    Args:
      folder: exists.
      table_name: with any characters.
      slots: (optimizer, slot) of each slot.
      key_dtype: of the keys in the file.
      pieces: yields (keys [n], rows [n, dim], slot [n, width], ...). If it raises, the earlier dump
        stays.

    Raises:
      FileError: a folder has the name of a file.
      OSError: a file cannot be written.
    """
    stem, slots = file_stem(table_name), list(slots)
    names = {f"{stem}-key": Header(table_name, Kind.KEYS, "", np.dtype(key_dtype))}
    names[f"{stem}-weight"] = Header(table_name, Kind.ROWS, "", np.dtype("<f4"))
    for optimizer, slot in slots:
        header = Header(table_name, Kind.SLOT, slot, np.dtype("<f4"))
        names[f"{stem}-{optimizer}-{file_stem(slot)}"] = header
    note = os.path.join(folder, f"{stem}-note")
    places = [os.path.join(folder, name) for name in names]
    for place in (*places, note):
        if os.path.isdir(place):
            raise FileError(f"{place} is a folder, but a file of the dump needs this name")
    dump_id = secrets.token_hex(ID_DIGITS // 2)
    with contextlib.ExitStack() as stack:
        files = {place: stack.enter_context(NewFile(until(place, dump_id))) for place in places}
        for file, header in zip(files.values(), names.values()):
            file.append(header.to_bytes())
        for arrays in pieces:
            for file, header, array in zip(files.values(), names.values(), arrays):
                file.append(array.astype(header.dtype))
        lines = [
            f"{name} {file.num_bytes} bytes, CRC-32C {file.finish()}\n"
            for name, file in zip(names, files.values())
        ]
        text = f"sok_compat-dump-2\nid {dump_id}\n{''.join(lines)}end\n"
        commit(folder, note, text, files, dump_id, lambda: _earlier_id(note))


def open_headed_dump(
    folder: str, table_name: str, slots: Mapping[tuple[str, str], Iterable[str]]
) -> HeadedDump:
    """Opens a dump, of this package or of SparseOperationKit.

    Args:
      folder: of the files.
      table_name: of the dumped table.
      slots: {(optimizer, slot): other names under which the optimizer may have been saved}.

    Raises:
      FileError: a file is missing, is not what its name says, or does not fit the others.
    """
    stem = file_stem(table_name)
    with folder_lock(folder, fcntl.LOCK_SH):
        note = _Note.read(os.path.join(folder, f"{stem}-note"))
        keys = _opened(folder, f"{stem}-key", Kind.KEYS, note)
        num_keys = _count(keys)
        rows = _as_rows(_opened(folder, f"{stem}-weight", Kind.ROWS, note), num_keys)
        found = {}
        for (optimizer, slot), others in slots.items():
            names = [f"{stem}-{each}-{file_stem(slot)}" for each in (optimizer, *others)]
            name = next((each for each in names if _exists(folder, each, note)), names[0])
            found[optimizer, slot] = _as_rows(_opened(folder, name, Kind.SLOT, note), num_keys)
    return HeadedDump(keys, rows, found)


def dumped_stems(folder: str) -> list[str]:
    """The beginnings of the names of dumped tables' files, sorted."""
    return sorted(name[: -len("-key")] for name in os.listdir(folder) if name.endswith("-key"))


@dataclasses.dataclass(frozen=True)
class _Note:
    id: str
    files: dict[str, tuple[int, int]]  # {name: (bytes, CRC-32C)}

    @classmethod
    def read(cls, path: str) -> _Note | None:
        match = match_note(path, _NOTE)
        if match is None:
            return None
        lines = [_LINE.fullmatch(line) for line in match[2].splitlines()]
        files = {line[1]: (int(line[2]), int(line[3])) for line in lines if line is not None}
        return cls(match[1], files)


def _earlier_id(note: str) -> str:
    try:
        found = _Note.read(note)
    except FileError:
        return ""
    return found.id if found else ""


def _path_now(folder: str, name: str, note: _Note | None) -> str:
    path = os.path.join(folder, name)
    is_new = note is not None and os.path.exists(until(path, note.id))
    return until(path, note.id) if note is not None and is_new else path


def _exists(folder: str, name: str, note: _Note | None) -> bool:
    return os.path.exists(_path_now(folder, name, note)) and (note is None or name in note.files)


def _opened(folder: str, name: str, kind: Kind, note: _Note | None) -> StoredArray:
    """The array [elements] of a file."""
    path = _path_now(folder, name, note)
    if not _exists(folder, name, note):
        held = ", ".join(dumped_stems(folder)) or "none"
        raise FileError(f"{path} is missing, a file of a dump; dumped tables here: {held}")
    num_bytes = os.path.getsize(path)
    checksum = None
    if note is not None:
        expected, checksum = note.files[name]
        if num_bytes != expected:
            raise FileError(
                f"{path} is not as it was written: it has {num_bytes} bytes, and {name} had "
                f"{expected}"
            )
        for _ in Extent(path, 0, num_bytes, checksum, "the file").pieces():
            pass
    with open(path, "rb") as file:
        header = Header.parse(file.read(HEADER_BYTES), path)
    is_number = header.dtype.kind in ("iu" if kind is Kind.KEYS else "f")
    if header.kind is not kind or not is_number:
        raise FileError(
            f"{path} must hold {kind.name.lower()}, but its header says "
            f"{header.kind.name.lower()} of {header.dtype.name}"
        )
    count, rest = divmod(num_bytes - HEADER_BYTES, header.dtype.itemsize)
    if rest:
        raise FileError(f"{path} ends within a {header.dtype.name}: it has {num_bytes} bytes")
    extent = Extent(path, HEADER_BYTES, num_bytes - HEADER_BYTES, None, "the file")
    return StoredArray(header.dtype, (count,), (extent,) if count else ())


def _count(array: StoredArray) -> int:
    return array.shape[0]


def _as_rows(array: StoredArray, num_keys: int) -> StoredArray:
    count = _count(array)
    dim = count // num_keys if num_keys else 0
    if dim * num_keys != count or (num_keys and dim < 1):
        raise FileError(
            f"{', '.join(array.paths) or 'a file of rows'} has {count} numbers, which are not rows "
            f"for {num_keys} keys"
        )
    return dataclasses.replace(array, shape=(num_keys, dim))
