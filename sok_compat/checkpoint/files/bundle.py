# SPDX-License-Identifier: Apache-2.0
"""`Bundle`: a TensorFlow checkpoint, an index with its data files."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import os
import struct
from collections.abc import Iterator

import numpy as np

from sok_compat.checkpoint.files.bundle_entries import (
    WHOLE,
    BundleEntry,
    Extents,
    parse_header,
    slice_name,
)
from sok_compat.checkpoint.files.checksums import crc32c
from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.files.sorted_table import read_sorted_table, varint
from sok_compat.checkpoint.files.stored_array import Extent, StoredArray

_NUMBERS = ("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32",
            "uint16", "uint8", "bool", "complex64", "complex128")  # fmt: skip
_VARIANTS = ("variant", "resource")  # dtypes that only TensorFlow can read


class Bundle:
    """A checkpoint `<prefix>.index` with `<prefix>.data-0000r-of-0000N`.

    Attributes:
      prefix: path of the checkpoint, without `.index`.
      num_shards: number of data files.
      tensors: {name: BundleEntry}.
    """

    def __init__(self, prefix: str) -> None:
        """Reads the index.

        Raises:
          FileError: the index is damaged, or a data file is missing or too short.
          OSError: the index cannot be read.
        """
        self.prefix, self._index = prefix, f"{prefix}.index"
        stored = read_sorted_table(self._index)
        if b"" not in stored:
            raise FileError(f"{self._index} has no header")
        with self._parsing("the header"):
            self.num_shards, is_little_endian = parse_header(stored.pop(b""))
        if not is_little_endian:
            raise FileError(f"{self._index} was written on a big-endian machine")
        self._slices = {name: value for name, value in stored.items() if name[:1] == b"\0"}
        self.tensors: dict[str, BundleEntry] = {}
        for name in stored.keys() - self._slices.keys():
            with self._parsing(name):
                self.tensors[name.decode()] = BundleEntry.parse(stored[name])
        self._check_files()

    def data_path(self, shard: int) -> str:
        """Path of the data file with the number `shard`."""
        return f"{self.prefix}.data-{shard:05d}-of-{self.num_shards:05d}"

    def entries(self, name: str) -> list[tuple[Extents, BundleEntry]]:
        """The stored parts of a tensor, as [(extents, BundleEntry)].

        A whole tensor is one entry with the extents (); a tensor in slices has one entry for each.
        """
        whole = self.tensors[name]
        if not whole.slices:
            return [((), whole)]
        return [(extents, self._slice(name, extents)) for extents in whole.slices]

    def num_bytes(self, name: str) -> int:
        """Bytes that a tensor takes in the data files."""
        return sum(entry.num_bytes for _, entry in self.entries(name))

    def array(self, name: str) -> StoredArray:
        """The StoredArray of a tensor of a numeric dtype.

        Raises:
          FileError: NumPy lacks the dtype, a slice is missing, or one does not hold whole rows.
        """
        whole = self.tensors[name]
        if whole.dtype not in _NUMBERS:
            raise FileError(f"{self._index}: {name} is {whole.dtype}, which NumPy lacks")
        dtype = np.dtype(whole.dtype).newbyteorder("<")
        array = StoredArray(dtype, whole.shape, ())
        entries = sorted(self.entries(name), key=lambda each: each[0])
        next_row = 0
        for extents, entry in entries:
            first, count = _rows_of(extents, whole.shape)
            if first != next_row or entry.num_bytes != count * array.row_bytes:
                break
            next_row += count
        if entries and next_row != (whole.shape or (1,))[0]:
            raise FileError(
                f"{self._index}: the slices of {name} are not its rows in order, from row "
                f"{next_row} on"
            )
        found = tuple(self._extent(name, entry) for _, entry in entries if entry.num_bytes)
        return dataclasses.replace(array, extents=found)

    def strings(self, name: str) -> list[bytes]:
        """The values of a string tensor.

        Raises:
          FileError: the tensor has another dtype or is in slices, or its checksum does not match.
        """
        (_, entry), *others = self.entries(name)
        if entry.dtype != "string" or others:
            raise FileError(f"{self._index}: {name} is not a whole tensor of strings")
        return self._checked_strings(name, entry)

    def check(self, name: str) -> bool:
        """Reads a tensor of any dtype; raises as Extent.pieces.

        Returns:
          Whether its checksum could be verified.
        """
        entries = [entry for _, entry in self.entries(name)]
        for entry in entries:
            if entry.dtype == "string":
                self._checked_strings(name, entry)
            elif entry.dtype not in _VARIANTS:
                for _ in self._extent(name, entry).pieces():
                    pass
        return all(entry.dtype not in _VARIANTS for entry in entries)

    def _extent(self, name, entry):
        path = self.data_path(entry.shard)
        return Extent(path, entry.offset, entry.num_bytes, entry.checksum, name)

    def _slice(self, name, extents):
        found = self._slices.get(slice_name(name, extents))
        if found is None:
            raise FileError(
                f"{self._index} lists a slice {extents} of {name}, but does not have it"
            )
        with self._parsing(f"a slice of {name}"):
            return BundleEntry.parse(found)

    @contextlib.contextmanager
    def _parsing(self, what: object) -> Iterator[None]:
        try:
            yield
        except (IndexError, ValueError, struct.error) as error:
            raise FileError(f"{self._index} is not as it was written: {what}: {error}") from error

    def _checked_strings(self, name, entry):
        """[bytes]. The lengths stand before the strings; the checksum covers them in another
        encoding."""
        unchecked = dataclasses.replace(self._extent(name, entry), checksum=None)
        data = b"".join(unchecked.pieces())
        lengths, position = [], 0
        with contextlib.suppress(IndexError):  # an unterminated length: the checksum fails
            for _ in range(int(np.prod(entry.shape, dtype=np.int64))):
                length, position = varint(data, position)
                lengths.append(length)
        forms = ["<Q" if length >> 32 else "<I" for length in lengths]
        stored = b"".join(struct.pack(form, length) for form, length in zip(forms, lengths))
        if crc32c(data[position:], crc32c(stored)) != entry.checksum:
            raise FileError(
                f"{unchecked.path} is not as it was written: the CRC-32C of the strings of {name} "
                f"is not the stored one, {entry.checksum}"
            )
        # The strings follow the lengths' checksum.
        ends = list(itertools.accumulate(lengths, initial=position + 4))
        return [data[begin:end] for begin, end in zip(ends, ends[1:])]

    def _check_files(self):
        """Checks that all data files exist and are long enough, before any of them is read."""
        ends = {}
        for name in self.tensors:
            for _, entry in self.entries(name):
                if entry.num_bytes and entry.shard >= self.num_shards:
                    raise FileError(
                        f"{self._index} is not as it was written: {name} is in the file "
                        f"{entry.shard} of {self.num_shards}"
                    )
                end = entry.offset + entry.num_bytes
                ends[entry.shard] = max(ends.get(entry.shard, 0), end)
        for shard, end in sorted(ends.items()):
            path = self.data_path(shard)
            if not os.path.exists(path):
                raise FileError(f"{path} is missing, though {self._index} has tensors in it")
            size = os.path.getsize(path)
            if size < end:
                raise FileError(f"{path} is cut off: it has {size} bytes of at least {end}")

    @functools.cached_property
    def data_bytes(self) -> int:
        """Bytes that all tensors take in the data files."""
        return sum(self.num_bytes(name) for name in self.tensors)


def _rows_of(extents, shape):
    """(first, count) of the whole rows that a slice covers; (-1, 0) if it covers parts of rows."""
    (start, length), *others = extents or ((0, WHOLE),)
    size = (shape or (1,))[0]
    for (other_start, other_length), other_size in zip(others, shape[1:]):
        if other_start != 0 or other_length not in (WHOLE, other_size):
            return -1, 0
    return start, size if length == WHOLE else length
