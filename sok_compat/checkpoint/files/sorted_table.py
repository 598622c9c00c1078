# SPDX-License-Identifier: Apache-2.0
"""The file format of a checkpoint's index: sorted names and values, in blocks with checksums."""

from __future__ import annotations

import struct

from sok_compat.checkpoint.files.checksums import crc32c, unmasked
from sok_compat.checkpoint.files.file_error import FileError

_FOOTER_BYTES = 48
_TRAILER_BYTES = 5  # of a block: its compression and checksum
_MAGIC = 0xDB4775248B80FB57


def read_sorted_table(path: str) -> dict[bytes, bytes]:
    """{name: value} of the file.

    Raises:
      FileError: the file has another format or is damaged.
    """
    with open(path, "rb") as file:
        data = file.read()
    if len(data) < _FOOTER_BYTES or struct.unpack("<Q", data[-8:])[0] != _MAGIC:
        raise FileError(
            f"{path} is not the index of a checkpoint, or cut off: it has {len(data)} bytes"
        )
    try:
        footer = data[-_FOOTER_BYTES:]
        _, _, position = _handle(footer, 0)
        offset, size, _ = _handle(footer, position)
        blocks = [value for _, value in _entries(_block(path, data, offset, size))]
        return {
            name: value
            for handle in blocks
            for name, value in _entries(_block(path, data, *_handle(handle, 0)[:2]))
        }
    except (IndexError, struct.error) as error:
        raise FileError(f"{path} is not as it was written: {error}") from error


def varint(data: bytes, position: int) -> tuple[int, int]:
    """(number, position after it) of the varint at a position."""
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7


def _handle(data, position):
    offset, position = varint(data, position)
    size, position = varint(data, position)
    return offset, size, position


def _block(path, data, offset, size):
    end = offset + size
    trailer = data[end : end + _TRAILER_BYTES]
    kind, stored = struct.unpack("<BI", trailer)
    if crc32c(data[offset : end + 1]) != unmasked(stored):
        raise FileError(
            f"{path} is not as it was written: the CRC-32C of its block at {offset} differs"
        )
    if kind != 0:
        raise FileError(f"{path} is compressed (kind {kind}), but TensorFlow's indexes never are")
    return data[offset:end]


def _entries(block):
    (num_restarts,) = struct.unpack("<I", block[-4:])
    end = len(block) - 4 * (num_restarts + 1)
    position, name = 0, b""
    while position < end:
        num_shared, position = varint(block, position)
        num_own, position = varint(block, position)
        size, position = varint(block, position)
        name = name[:num_shared] + block[position : position + num_own]
        position += num_own
        yield name, block[position : position + size]
        position += size
