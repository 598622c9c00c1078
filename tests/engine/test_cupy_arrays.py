# SPDX-License-Identifier: Apache-2.0
"""CupyArrays' own part, with stand-ins for CuPy and the table in C++: no GPU is needed."""

import contextlib
import types

import numpy as np
import pytest

from sok_compat import HashTable
from sok_compat.engine import _engine, cupy_arrays


class FakeArray(np.ndarray):
    data = property(lambda self: types.SimpleNamespace(ptr=id(self)))


class FakeCupy:
    """Arrays of NumPy; notes which device and stream are current."""

    def __init__(self):
        self.current = []
        self.cuda = types.SimpleNamespace(
            Device=lambda number: self._entered(f"device {number}", None),
            ExternalStream=lambda handle, device: self._entered(f"stream {handle}", handle),
            get_current_stream=lambda: types.SimpleNamespace(ptr=self.current[-1][1] or 0),
        )

    def empty(self, shape, dtype):
        return np.zeros(shape, dtype).view(FakeArray)

    def asarray(self, array):
        return np.asarray(array).view(FakeArray)

    @contextlib.contextmanager
    def _entered(self, what, handle):
        self.current.append((what, handle))
        yield
        self.current.pop()


class FakeStored:
    """Notes on which stream calls come; `size` and what `export` gives change as told."""

    def __init__(self, options, gpu, num_threads):
        self.streams = []
        self.sizes = []
        self.num_keys = 0

    @property
    def size(self):
        return self.sizes.pop(0) if len(self.sizes) > 1 else self.sizes[0]

    def find(self, stream, num_keys, keys, row_ids):
        self.streams.append(stream)

    def export(self, stream, capacity, keys, rows):
        return self.num_keys


@pytest.fixture
def table(monkeypatch):
    monkeypatch.setattr(_engine, "HAS_CUDA", True)
    monkeypatch.setattr(_engine, "StoredTable", FakeStored)
    monkeypatch.setattr(cupy_arrays, "_import_cupy", FakeCupy)
    return HashTable(2, device="cuda:3")


@pytest.fixture
def stored(table):
    return table._stored


class Stream:
    def __cuda_stream__(self):
        return 0, 11


@pytest.mark.parametrize("stream, handle", [(None, 0), (7, 7), (Stream(), 11)])
def test_calls_go_to_the_stream_that_is_given(table, stored, stream, handle):
    table.find([1, 2], stream=stream)
    assert stored.streams == [handle]
    assert table._arrays._cupy.current == []


@pytest.mark.parametrize("stream", [True, 1.5, "default"])
def test_bad_streams(table, stream):
    with pytest.raises(TypeError, match="stream must be a CuPy stream.*integer, got"):
        table.find([1], stream=stream)


@pytest.mark.parametrize(
    "sizes, num_keys, shape",
    [
        ([3], 3, (3, 2)),
        ([3], 2, (2, 2)),  # another thread has erased a key in between
        ([3, 5], 5, (5, 2)),  # or inserted two
    ],
)
def test_export_gives_as_many_keys_as_came(table, stored, sizes, num_keys, shape):
    stored.sizes, stored.num_keys = sizes, num_keys
    keys, rows = table.export()
    assert (keys.shape, rows.shape) == (shape[:1], shape)
