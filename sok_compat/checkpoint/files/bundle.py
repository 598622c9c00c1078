# SPDX-License-Identifier: Apache-2.0
"""`Bundle`: a checkpoint of TensorFlow's, an index and its data files."""

import contextlib
import dataclasses
import functools
import itertools
import os
import struct

import numpy as np

from sok_compat.checkpoint.files.bundle_entries import (
    WHOLE,
    BundleEntry,
    parse_header,
    slice_name,
)
from sok_compat.checkpoint.files.checksums import crc32c
from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.files.sorted_table import read_sorted_table, varint
from sok_compat.checkpoint.files.stored_array import Extent, StoredArray

_VARIANTS = ("variant", "resource")  # what only TensorFlow reads


class Bundle:
    """A checkpoint `<prefix>.index` with `<prefix>.data-0000r-of-0000N`.

    Attributes:
      prefix: its path.
      num_shards: of data files.
      tensors: {name: BundleEntry}.
    """

    def __init__(self, prefix):
        """Reads the index.

        Raises:
          FileError: it is not as it was written, or a data file is missing or too short.
          OSError: it cannot be read.
        """
        self.prefix, self._index = prefix, f"{prefix}.index"
        stored = read_sorted_table(self._index)
        self.num_shards, is_little_endian = parse_header(stored.pop(b"", b""))
        if not is_little_endian:
            raise FileError(f"{self._index} is of a machine with big-endian numbers")
        self._slices = {name: value for name, value in stored.items() if name[:1] == b"\0"}
        self.tensors = {
            name.decode(): BundleEntry.parse(value)
            for name, value in stored.items()
            if name not in self._slices
        }
        self._check_files()

    def data_path(self, shard):
        """The file of data number `shard`."""
        return f"{self.prefix}.data-{shard:05d}-of-{self.num_shards:05d}"

    def entries(self, name):
        """[(extents, BundleEntry)] of what is stored of a tensor: one, all of it, or its slices;
        `extents` is ((start, length), ...) of the dimensions, () for all of it."""
        whole = self.tensors[name]
        if not whole.slices:
            return [((), whole)]
        return [(extents, self._slice(name, extents)) for extents in whole.slices]

    def num_bytes(self, name):
        """Of the data files, those of one tensor."""
        return sum(entry.num_bytes for _, entry in self.entries(name))

    def array(self, name):
        """The StoredArray of a tensor of numbers that NumPy has.

        Raises:
          FileError: it stands in slices that are not of whole rows, or of which one is missing.
        """
        whole = self.tensors[name]
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
                f"{self._index}: the slices of {name} are not its rows, one after the other, from "
                f"row {next_row} on"
            )
        found = tuple(self._extent(name, entry) for _, entry in entries if entry.num_bytes)
        return dataclasses.replace(array, extents=found)

    def strings(self, name):
        """A tensor of strings, all of it, as a list of bytes.

        Raises:
          FileError: it is no such tensor, or its checksum is another one.
        """
        (_, entry), *others = self.entries(name)
        if entry.dtype != "string" or others:
            raise FileError(f"{self._index}: {name} is no tensor of strings")
        return self._checked_strings(name, entry)

    def check(self, name):
        """Reads a tensor, whatever it is.

        Returns:
          Whether its checksum could be verified; errors as of Extent.pieces.
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
            raise FileError(f"{self._index} has no slice {extents} of {name}, which it lists")
        return BundleEntry.parse(found)

    def _checked_strings(self, name, entry):
        """[bytes]. Strings have their lengths before them, and in the checksum other bytes of
        these."""
        unchecked = dataclasses.replace(self._extent(name, entry), checksum=None)
        data = b"".join(unchecked.pieces())
        lengths, position = [], 0
        with contextlib.suppress(IndexError):  # a length without an end, which the sum tells of
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
        ends = list(itertools.accumulate(lengths, initial=position + 4))  # behind the lengths' sum
        return [data[begin:end] for begin, end in zip(ends, ends[1:])]

    def _check_files(self):
        """Before anything is read: each is there, and long enough."""
        ends = {}
        for name in self.tensors:
            for _, entry in self.entries(name):
                end = entry.offset + entry.num_bytes
                ends[entry.shard] = max(ends.get(entry.shard, 0), end)
        for shard, end in sorted(ends.items()):
            path = self.data_path(shard)
            if not os.path.exists(path):
                raise FileError(f"{path} is missing, in which {self._index} has tensors")
            size = os.path.getsize(path)
            if size < end:
                raise FileError(f"{path} is cut off: it has {size} bytes of at least {end}")

    @functools.cached_property
    def data_bytes(self):
        """Of all tensors."""
        return sum(self.num_bytes(name) for name in self.tensors)


def _rows_of(extents, shape):
    """(first, count) of the rows that a slice has whole; (-1, 0): it has none whole."""
    (start, length), *others = extents or ((0, WHOLE),)
    size = (shape or (1,))[0]
    for (other_start, other_length), other_size in zip(others, shape[1:]):
        if other_start != 0 or other_length not in (WHOLE, other_size):
            return -1, 0
    return start, size if length == WHOLE else length
