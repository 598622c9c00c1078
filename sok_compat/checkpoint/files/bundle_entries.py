# SPDX-License-Identifier: Apache-2.0
"""What the index of a checkpoint says of each tensor, and how it calls the slices of one.

The messages are those of TensorFlow's tensor_bundle.proto, read as they are on the wire: its own
reader comes with TensorFlow only.
"""

import dataclasses
import struct

from sok_compat.checkpoint.files.checksums import unmasked
from sok_compat.checkpoint.files.sorted_table import varint

WHOLE = -1  # the length of a slice that has all of a dimension

# DataType -> (its name, bytes of one; 0: they differ)
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
    14: ("bfloat16", 2),
    17: ("uint16", 2),
    18: ("complex128", 16),
    19: ("float16", 2),
    20: ("resource", 0),
    21: ("variant", 0),
    22: ("uint32", 4),
    23: ("uint64", 8),
}


@dataclasses.dataclass(frozen=True)
class BundleEntry:
    """A tensor, or a slice of one; of a tensor in slices nothing is stored in one place."""

    dtype: str
    shape: tuple
    shard: int
    offset: int
    num_bytes: int
    checksum: int
    slices: tuple  # of ((start, length), ...), one for each dimension

    @classmethod
    def parse(cls, message):
        fields = _fields(message)
        shape = fields.get(2, [b""])[-1]
        sizes = tuple(_signed(_fields(dim).get(1, [0])[-1]) for dim in _fields(shape).get(2, []))
        return cls(
            dtype=_DTYPES.get(fields.get(1, [0])[-1], (f"type {fields.get(1)}", 0))[0],
            shape=sizes,
            shard=fields.get(3, [0])[-1],
            offset=fields.get(4, [0])[-1],
            num_bytes=fields.get(5, [0])[-1],
            checksum=unmasked(fields.get(6, [0])[-1]),
            slices=tuple(_slice(each) for each in fields.get(7, [])),
        )


def parse_header(message):
    """(number of shards, whether numbers are little-endian)."""
    fields = _fields(message)
    return fields.get(1, [0])[-1], fields.get(2, [0])[-1] == 0


def slice_name(name, extents):
    """What the index calls a slice of a tensor: codes that sort as what they stand for."""
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
    """{number of the field: its values}."""
    fields, position = {}, 0
    while position < len(message):
        tag, position = varint(message, position)
        kind = tag & 7
        if kind == 0:
            value, position = varint(message, position)
        elif kind == 2:
            size, position = varint(message, position)
            value, position = message[position : position + size], position + size
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
    size = 1  # a byte has room for 7 bits, of which the sign takes one
    while magnitude >> (7 * size - 1):
        size += 1
    header = ((1 << size) - 1) << (8 * size - size)  # as many ones as there are bytes
    code = (number & ((1 << 8 * size) - 1)) ^ header
    return code.to_bytes(size, "big")
