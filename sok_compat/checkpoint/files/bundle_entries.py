# SPDX-License-Identifier: Apache-2.0
"""The entries of a checkpoint's index, and the names that it gives to slices.

The messages are those of TensorFlow's tensor_bundle.proto, parsed by hand from the wire format:
this module works without TensorFlow.
"""

from __future__ import annotations

import dataclasses
import math
import struct

from sok_compat.checkpoint.files.checksums import unmasked
from sok_compat.checkpoint.files.sorted_table import varint

WHOLE = -1  # the length of a slice that covers a whole dimension
Extents = tuple[tuple[int, int], ...]  # (start, length) of each dimension; () for a whole tensor

# DataType -> (its name, bytes of one element; 0 if they vary)
_DTYPES = {
    1: ("float32", 4),
    2: ("float64", 8),
    3: ("int32", 4),
    4: ("uint8", 1),
    5: ("int16", 2),
    6: ("int8", 1),
    7: ("string", 0),
    8: ("complex64", 8),
    9: ("int64", 8),
    10: ("bool", 1),
    11: ("qint8", 1),
    12: ("quint8", 1),
    13: ("qint32", 4),
    14: ("bfloat16", 2),
    15: ("qint16", 2),
    16: ("quint16", 2),
    17: ("uint16", 2),
    18: ("complex128", 16),
    19: ("float16", 2),
    20: ("resource", 0),
    21: ("variant", 0),
    22: ("uint32", 4),
    23: ("uint64", 8),
    24: ("float8_e5m2", 1),
    25: ("float8_e4m3fn", 1),
    26: ("float8_e4m3fnuz", 1),
    27: ("float8_e4m3b11fnuz", 1),
    28: ("float8_e5m2fnuz", 1),
    29: ("int4", 1),
    30: ("uint4", 1),
    31: ("int2", 1),
    32: ("uint2", 1),
    33: ("float4_e2m1fn", 1),
}


@dataclasses.dataclass(frozen=True)
class BundleEntry:
    """Where a tensor, or one slice of it, is stored. A tensor in slices has no bytes of its own."""

    dtype: str
    shape: tuple[int, ...]
    shard: int
    offset: int
    num_bytes: int
    checksum: int
    slices: tuple[Extents, ...]

    @classmethod
    def parse(cls, message: bytes) -> BundleEntry:
        """The entry in a BundleEntryProto.

        Raises:
          ValueError, IndexError, struct.error: the message is malformed, its dtype is
            unknown, or its sizes are impossible.
        """
        fields = _fields(message)
        shape = fields.get(2, [b""])[-1]
        sizes = tuple(_signed(_fields(dim).get(1, [0])[-1]) for dim in _fields(shape).get(2, []))
        number = fields.get(1, [0])[-1]
        if number not in _DTYPES:
            raise ValueError(f"the dtype {number} is unknown")
        dtype, element_bytes = _DTYPES[number]
        entry = cls(
            dtype=dtype,
            shape=sizes,
            shard=fields.get(3, [0])[-1],
            offset=_signed(fields.get(4, [0])[-1]),
            num_bytes=_signed(fields.get(5, [0])[-1]),
            checksum=unmasked(fields.get(6, [0])[-1]),
            slices=tuple(_slice(each) for each in fields.get(7, [])),
        )
        entry._check(element_bytes)
        return entry

    def _check(self, element_bytes):
        if min((self.offset, self.num_bytes, *self.shape)) < 0:
            raise ValueError(f"shape {self.shape}, {self.num_bytes} bytes from {self.offset} on")
        num_elements = math.prod(self.shape)
        fits = self.num_bytes == num_elements * element_bytes
        if not element_bytes:
            fits = self.num_bytes >= num_elements
        if not self.slices and not fits:
            raise ValueError(f"{self.num_bytes} bytes for {num_elements} elements")


def parse_header(message: bytes) -> tuple[int, bool]:
    """(number of shards, whether numbers are little-endian) of a BundleHeaderProto."""
    fields = _fields(message)
    return fields.get(1, [0])[-1], fields.get(2, [0])[-1] == 0


def slice_name(name: str, extents: Extents) -> bytes:
    """The index's key for a slice of a tensor, in TensorFlow's order-preserving code."""
    escaped = b"".join(
        {0: b"\x00\xff", 0xFF: b"\xff\x00"}.get(byte, bytes([byte])) for byte in name.encode()
    )
    numbers = b"".join(_signed_code(number) for extent in extents for number in extent)
    return b"\x00" + escaped + b"\x00\x01" + _code(len(extents)) + numbers


def _slice(message):
    extents = []
    for extent in _fields(message).get(1, []):
        fields = _fields(extent)
        length = _signed(fields[2][-1]) if 2 in fields else WHOLE
        extents.append((_signed(fields.get(1, [0])[-1]), length))
    return tuple(extents)


def _fields(message):
    """{field number: its values}."""
    fields, position = {}, 0
    while position < len(message):
        tag, position = varint(message, position)
        kind = tag & 7
        if kind == 0:
            value, position = varint(message, position)
        elif kind == 2:
            size, position = varint(message, position)
            value, position = message[position : position + size], position + size
            if len(value) < size:
                raise IndexError("a message ends early")
        else:
            size, form = (4, "<I") if kind == 5 else (8, "<Q")
            (value,) = struct.unpack_from(form, message, position)
            position += size
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def _signed(number):
    return number - (1 << 64) if number >> 63 else number


def _code(number):
    digits = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return bytes([len(digits)]) + digits


def _signed_code(number):
    magnitude = ~number if number < 0 else number
    size = 1  # 7 bits for each byte, one of them for the sign
    while magnitude >> (7 * size - 1):
        size += 1
    header = ((1 << size) - 1) << (8 * size - size)  # one leading 1 for each byte
    code = (number & ((1 << 8 * size) - 1)) ^ header
    return code.to_bytes(size, "big")
