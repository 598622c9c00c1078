# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of TensorFlow's read without it, and which of their tensors are tables."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import tensor_bundle_pb2

from sok_compat.checkpoint.files.bundle import Bundle
from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.files.stored_array import together
from sok_compat.checkpoint.files.table_names import find_tables
from tests.support.saves.checksums import crc32c
from tests.support.saves.damaged_files import write_sorted_table

FEW = settings(max_examples=25, deadline=None)


def after_8_bits(register):
    for _ in range(8):
        register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    return register


def slowly(data):
    table = [after_8_bits(byte) for byte in range(256)]
    register = 0xFFFFFFFF
    for byte in data:
        register = register >> 8 ^ table[register & 0xFF ^ byte]
    return register ^ 0xFFFFFFFF


def test_checksum_of_known_bytes():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0


@pytest.mark.parametrize("size", [1, 511, 515, 1024, 1 << 16, (1 << 17) + 3])
def test_checksums_of_all_sizes(size):
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8).tobytes()
    assert crc32c(data) == slowly(data)
    assert crc32c(data[size // 3 :], crc32c(data[: size // 3])) == crc32c(data)


def save(path, tensors, cuts=()):
    """{name: value} as a checkpoint; cuts: {name: rows at which it is cut into slices}."""
    names, slices, values = [], [], []
    for name, value in tensors.items():
        ends = [*cuts[name], len(value)] if name in dict(cuts) else [None]
        first = 0
        for end in ends:
            names.append(name)
            values.append(tf.constant(value if end is None else value[first:end]))
            shape = " ".join(map(str, np.shape(value)))
            whole = ":-" * (np.ndim(value) - 1)
            slices.append("" if end is None else f"{shape} {first},{end - first}{whole}")
            first = end
    tf.raw_ops.SaveV2(prefix=path, tensor_names=names, shape_and_slices=slices, tensors=values)
    return path


@st.composite
def stored_tensors(draw):
    """(tensors, cuts) for save."""
    names = draw(st.sets(st.text("aé/_-.0\x01", min_size=1, max_size=4), min_size=1, max_size=4))
    tensors, cuts = {}, {}
    for name in sorted(names):
        num_rows = draw(st.integers(0, 200))
        dtype = draw(st.sampled_from([np.float32, np.int64, np.int32, np.uint32, np.float64]))
        shape = [num_rows, *draw(st.lists(st.integers(1, 3), max_size=1))]
        tensors[name] = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
        if num_rows > 1 and draw(st.booleans()):
            cuts[name] = sorted(draw(st.sets(st.integers(1, num_rows - 1), max_size=4)))
    return tensors, cuts


@FEW
@given(stored_tensors(), st.integers(1, 70))
def test_tensors_are_read_as_tensorflow_reads_them(tmp_path_factory, stored, most_rows):
    tensors, cuts = stored
    bundle = Bundle(save(str(tmp_path_factory.mktemp("saved") / "model"), tensors, cuts))
    assert bundle.tensors.keys() == tensors.keys()
    for name, value in tensors.items():
        array = bundle.array(name)
        assert (array.dtype, array.shape) == (value.dtype, value.shape)
        pieces = list(array.pieces(most_rows))
        assert all(len(rows) <= most_rows for rows in pieces)
        np.testing.assert_array_equal(np.concatenate([value[:0], *pieces]), value)
        np.testing.assert_array_equal(array.whole(), value)
        places = np.random.default_rng(0).permutation(len(value))
        np.testing.assert_array_equal(array.take(places), value[places])
        assert bundle.check(name)
        halves = [np.concatenate(rows) for rows in zip(*together([array, array], most_rows))]
        assert not halves or all(np.array_equal(half, value) for half in halves)


def test_what_numpy_has_not(tmp_path):
    strings = [b"", b"a", b"long" * 100]
    path = save(str(tmp_path / "model"), {"s": strings, "b": tf.constant([1.0, 2.0], tf.bfloat16)})
    bundle = Bundle(path)
    assert bundle.tensors["b"].dtype == "bfloat16"
    assert bundle.check("s") and bundle.check("b")


def test_dtypes_are_those_of_tensorflow(tmp_path):
    path = f"{tmp_path}/model"
    (tmp_path / "model.data-00000-of-00001").write_bytes(b" " * 99)
    for name, number in types_pb2.DataType.items():
        if not 0 < number < 100:  # others are invalid, or references, which no file has
            continue
        dtype = tf.as_dtype(number)
        entry = tensor_bundle_pb2.BundleEntryProto(dtype=number, size=dtype.size or 1)
        header = tensor_bundle_pb2.BundleHeaderProto(num_shards=1).SerializeToString()
        write_sorted_table(f"{path}.index", {b"": header, b"x": entry.SerializeToString()})
        assert Bundle(path).tensors["x"].dtype == dtype.name, name


def test_a_flipped_bit_is_found_in_every_byte(tmp_path):
    path = save(str(tmp_path / "model"), {"s": [b"ab", b"c"], "x": np.float32([1, 2])})
    bundle = Bundle(path)
    file = tmp_path / "model.data-00000-of-00001"
    content = file.read_bytes()
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 16
        file.write_bytes(changed)
        with pytest.raises(FileError, match="00000-of-00001"):
            assert all(map(bundle.check, "sx"))


@pytest.mark.parametrize("most_rows", [1, 2, 9])
def test_a_flipped_bit_is_found_in_what_is_read_together(tmp_path, most_rows):
    bundle = Bundle(save(str(tmp_path / "model"), {"x": np.arange(4), "y": np.arange(4)}))
    file = tmp_path / "model.data-00000-of-00001"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(FileError, match="of y, 32 bytes"):
        list(together([bundle.array("x"), bundle.array("y")], most_rows))


def test_no_byte_of_the_index_may_change(tmp_path):
    path = save(str(tmp_path / "model"), {f"name{i}": np.float32([i]) for i in range(18)})
    file = tmp_path / "model.index"
    content = file.read_bytes()
    known = Bundle(path).tensors
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1
        file.write_bytes(changed)
        try:
            assert Bundle(path).tensors == known  # what is between the blocks and the footer's end
        except FileError as error:
            assert "model.index" in str(error)
    for size in range(0, len(content), 5):
        file.write_bytes(content[:size])
        with pytest.raises(FileError, match="model.index"):
            Bundle(path)


F, I = "float32", "int64"  # noqa: E741


def in_rows(name, num_keys, dim=4):
    return {f"{name}/keys": (I, [num_keys]), f"{name}/rows": (F, [num_keys, dim])}


def in_buckets(name, num_keys, dim=4, keys="int64", recorded=False):
    numbers = [num_keys if recorded else 0]
    return {
        f"{name}-keys": (keys, [num_keys]),
        f"{name}-values": (F, [num_keys, dim]),
        f"{name}-versions": (I, numbers),
        f"{name}-freqs": (I, numbers),
        f"{name}-keys_filtered": (keys, [2]),
        f"{name}-versions_filtered": (I, [2]),
        f"{name}-freqs_filtered": (I, [2]),
        f"{name}-partition_offset": ("int32", [1001]),
        f"{name}-partition_filter_offset": ("int32", [1001]),
    }


def slot(name, num_keys, width=4):
    return {name: (F, [num_keys, width])}


INCREMENT = {**in_buckets("v.increment", 3), "v.increment-gone": (I, [1])}
OBJECT = "layer/table/.ATTRIBUTES/table"
CASES = {  # what is in the checkpoint: {table: [slots]}, others
    "rows": ({**in_rows("x", 3), **slot("x/m", 3), "step": (I, [])}, {"x": ["x/m"]}, ["step"]),
    "slots around": (
        {**in_rows("x", 3), **in_rows("tower/x", 3), **slot("s/tower/x/m", 3), **slot("m/x", 3)},
        {"x": ["m/x"], "tower/x": ["s/tower/x/m"]},
        [],
    ),
    "another number of rows is no slot": (
        {**in_rows("x", 3), **slot("x/kernel", 4)},
        {"x": []},
        ["x/kernel"],
    ),
    "objects": (
        {**in_rows(OBJECT, 3), **slot("x/m", 3), **slot("w/.ATTRIBUTES/VARIABLE_VALUE", 3)},
        {OBJECT: ["x/m"]},
        ["w/.ATTRIBUTES/VARIABLE_VALUE"],
    ),
    "empty": ({**in_rows("x", 0), **slot("x/m", 0)}, {"x": ["x/m"]}, []),
    "only named so": (
        {"a/keys": (I, [3]), "b/keys": (F, [3]), "b/rows": (F, [3, 2]), "/keys": (I, [1])},
        {},
        ["/keys", "a/keys", "b/keys", "b/rows"],
    ),
    "other numbers of keys and rows": (
        {"a/keys": (I, [3]), "a/rows": (F, [4, 2]), "b-keys": (I, [3]), "b-values": (F, [4, 2])},
        {},
        ["a/keys", "a/rows", "b-keys", "b-values"],
    ),
    "buckets": (
        {**in_buckets("v", 3), **in_buckets("v/Adagrad", 3), "v/Adagrad_2": (F, [1])},
        {"v": ["v/Adagrad"]},
        ["v/Adagrad_2"],
    ),
    "parts": (
        {
            **in_buckets("t/v/part_0", 3, keys="int32"),
            **in_buckets("t/v/part_10", 1, keys="int32"),
            **in_buckets("t/v/part_2", 0, keys="int32"),
            **in_buckets("t/v/part_0/Adam", 3, keys="int32"),
            **in_buckets("t/v/part_10/Adam", 1, keys="int32"),
            **in_buckets("t/v/part_2/Adam", 0, keys="int32"),
            "dense": (F, [3, 4]),
        },
        {"t/v": ["t/v/Adam"]},
        ["dense"],
    ),
    "a table below another": (
        {**in_buckets("a", 3), **in_buckets("a/b", 4), **in_buckets("c/a", 3)},
        {"a": [], "a/b": [], "c/a": []},
        [],
    ),
    "an increment": (INCREMENT, {}, sorted(INCREMENT)),
}


@pytest.mark.parametrize("tensors, tables, others", CASES.values(), ids=CASES)
def test_tables_are_recognised(tensors, tables, others):
    found = find_tables(tensors)
    assert {table.name: [slot.name for slot in table.slots] for table in found} == tables
    of_tables = [name for table in found for name in table.tensors]
    assert len(set(of_tables)) == len(of_tables)
    assert sorted(tensors.keys() - set(of_tables)) == others


def test_parts_are_in_the_order_of_their_numbers():
    (table,) = find_tables(CASES["parts"][0])
    assert table.keys == tuple(f"t/v/part_{i}-keys" for i in (0, 2, 10))
    assert table.slots[0].tensors == tuple(f"t/v/part_{i}/Adam-values" for i in (0, 2, 10))
    assert table.recorded == ()
    assert len(table.keys_without_row) == 3


def test_what_is_recorded_of_keys():
    (table,) = find_tables(in_buckets("v", 3, recorded=True))
    assert [plane.name for plane in table.recorded] == ["versions", "freqs"]
