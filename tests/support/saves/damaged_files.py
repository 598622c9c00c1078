# SPDX-License-Identifier: Apache-2.0
"""Checkpoints with a damage each: a bit that is flipped, a file that is cut, an index that lies."""

import glob
import os
import random
import shutil
import struct

from tensorflow.core.protobuf import tensor_bundle_pb2

from tests.support.saves.checksums import crc32c

MAGIC = 0xDB4775248B80FB57


def copy(prefix, to):
    """The files of a checkpoint under another name."""
    for old in glob.glob(f"{glob.escape(to)}.*"):
        os.unlink(old)
    for file in glob.glob(f"{glob.escape(prefix)}.*"):
        shutil.copy(file, to + file[len(prefix) :])


def file_damages(prefix, seed, num_flips):
    """Yields (what, damage): damage(prefix) flips a bit or cuts a file of a copy."""
    numbers = random.Random(seed)
    files = sorted(file[len(prefix) :] for file in glob.glob(f"{glob.escape(prefix)}.[di]*"))
    for ending in files:
        size = os.path.getsize(prefix + ending)
        if size == 0:
            continue
        for _ in range(num_flips):
            place, bit = numbers.randrange(size), numbers.randrange(8)
            yield f"bit {bit} of byte {place} of {ending}", _flip(ending, place, bit)
        for kept in (0, numbers.randrange(size), size - 1):
            yield f"{ending} cut to {kept}", _cut(ending, kept)


def _flip(ending, place, bit):
    def flip(prefix):
        with open(prefix + ending, "r+b") as file:
            file.seek(place)
            (byte,) = file.read(1)
            file.seek(place)
            file.write(bytes([byte ^ 1 << bit]))

    return flip


def _cut(ending, kept):
    return lambda prefix: os.truncate(prefix + ending, kept)


def index_forgeries(names):
    """Yields (what, damage): the index says of a tensor what cannot be, and its sums are right."""
    for name in names:
        for what, forge in FORGERIES.items():
            yield f"{what} of {name}", _forging(name, forge)


def _sizes(size):
    def forge(entry):
        (entry.shape.dim[0] if entry.shape.dim else entry.shape.dim.add()).size = size

    return forge


def _set(**fields):
    def forge(entry):
        for field, value in fields.items():
            setattr(entry, field, value)

    return forge


def _slice(start, length):
    def forge(entry):
        extents = entry.slices.add().extent
        extents.add(start=start, length=length)
        for _ in entry.shape.dim[1:]:
            extents.add()

    return forge


FORGERIES = {
    "negative size": _sizes(-3),
    "huge size": _sizes(1 << 62),
    "another size": _sizes(1),
    "huge bytes": _set(size=1 << 60),
    "negative bytes": _set(size=-8),
    "negative offset": _set(offset=-1),
    "offset beyond": _set(offset=1 << 40),
    "no dtype": _set(dtype=0),
    "unknown dtype": _set(dtype=77),
    "another dtype": _set(dtype=18),
    "another file": _set(shard_id=9),
    "slice of negative length": _slice(0, -5),
    "slice beyond": _slice(1 << 40, 4),
    "another checksum": _set(crc32c=5),
    "truncated varint": None,
}


def _forging(name, forge):
    def damage(prefix):
        index = f"{prefix}.index"
        stored = read_sorted_table(index)
        if forge is None:
            stored[name.encode()] += b"\x28\xff"  # of the field `size`
        else:
            entry = tensor_bundle_pb2.BundleEntryProto.FromString(stored[name.encode()])
            forge(entry)
            stored[name.encode()] = entry.SerializeToString()
        write_sorted_table(index, stored)

    return damage


def forge_header(prefix):
    """No tensor is in a file that there is."""
    stored = read_sorted_table(f"{prefix}.index")
    header = tensor_bundle_pb2.BundleHeaderProto.FromString(stored[b""])
    header.num_shards = -1
    write_sorted_table(f"{prefix}.index", {**stored, b"": header.SerializeToString()})


def forge_footer(prefix):
    """A block that is larger than any memory."""
    with open(f"{prefix}.index", "r+b") as file:
        file.seek(-48, os.SEEK_END)
        file.write(_varint(0) + _varint(8) + _varint(0) + _varint(1 << 62))


def read_sorted_table(path):
    """{name: value}, without any checks."""
    with open(path, "rb") as file:
        data = file.read()
    _, _, *handle = _varints(data[-48:], 4)[0]
    blocks = [_varints(value, 2)[0] for _, value in _entries(data, *handle)]
    return dict(entry for block in blocks for entry in _entries(data, *block))


def _entries(data, offset, size):
    """Yields (name, value) of a block."""
    block = data[offset : offset + size]
    (num_restarts,) = struct.unpack("<I", block[-4:])
    rest, name = block[: -4 * (num_restarts + 1)], b""
    while rest:
        (num_shared, num_own, num_bytes), rest = _varints(rest, 3)
        name = name[:num_shared] + rest[:num_own]
        yield name, rest[num_own : num_own + num_bytes]
        rest = rest[num_own + num_bytes :]


def _varints(data, count):
    """([number], the bytes behind them)."""
    numbers, position = [], 0
    for _ in range(count):
        number = shift = 0
        while data[position] >= 0x80:
            number |= (data[position] & 0x7F) << shift
            position, shift = position + 1, shift + 7
        numbers.append(number | data[position] << shift)
        position += 1
    return numbers, data[position:]


def write_sorted_table(path, stored):
    """As TensorFlow's TableBuilder, in one block."""
    data = _block((name, stored[name]) for name in sorted(stored))
    index = _block([(max(stored) + b"\xff", _varint(0) + _varint(len(data) - 5))])
    meta = _block([])
    ends = [len(data), len(data) + len(meta)]
    handles = b"".join(map(_varint, (ends[0], len(meta) - 5, ends[1], len(index) - 5)))
    with open(path, "wb") as file:
        file.write(data + meta + index + handles.ljust(40, b"\0") + struct.pack("<Q", MAGIC))


def _block(entries):
    data = b"".join(
        _varint(0) + _varint(len(name)) + _varint(len(value)) + name + value
        for name, value in entries
    )
    data += struct.pack("<II", 0, 1) + b"\0"
    checksum = crc32c(data)
    masked = ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return data + struct.pack("<I", masked)


def _varint(number):
    code = b""
    while number >= 0x80:
        code, number = code + bytes([number & 0x7F | 0x80]), number >> 7
    return code + bytes([number])
