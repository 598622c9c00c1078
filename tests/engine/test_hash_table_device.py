# SPDX-License-Identifier: Apache-2.0
"""HashTable on a GPU: the CPU's numbers, the caller's streams, and an error where there is no GPU.

What holds on every device is in test_hash_table.py and its neighbours.
"""

import contextlib

import numpy as np
import pytest

from sok_compat import HashTable
from tests.engine.devices import WHY_NO_GPU, NewTable, skip_without_gpu


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:-1", "CPU", 0, None])
def test_bad_devices(device):
    with pytest.raises(ValueError, match="device must be 'cpu', 'cuda' or 'cuda:<number>', got"):
        HashTable(1, device=device)


@pytest.mark.skipif(WHY_NO_GPU is None, reason="this machine has a GPU")
def test_an_error_says_why_there_is_no_gpu():
    assert any(
        words in WHY_NO_GPU
        for words in ("has no CUDA back end", "no CUDA device: ", "CuPy cannot be imported")
    )


def test_device_of_a_table():
    assert HashTable(1).device == "cpu"


def test_the_cpu_has_no_streams():
    table = HashTable(1)
    with pytest.raises(ValueError, match="stream is for tables on a GPU.*got 7"):
        table.insert([1], stream=7)
    assert table.insert([1], stream=None).tolist() == [0]


@skip_without_gpu
@pytest.mark.parametrize("dim", [1, 6, 16])
def test_same_as_on_the_cpu(dim):
    random = np.random.default_rng(1)
    tables = [NewTable(kind)(dim, 5000, name="t", seed=3) for kind in ("cpu", "cuda:0-cupy")]

    def check(call, *arrays):
        expected, actual = (getattr(table, call)(*arrays) for table in tables)
        if expected is not None:
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)

    for _ in range(6):
        keys = random.integers(-2000, 2000, 3000)
        values = random.normal(size=(3000, dim)).astype(np.float32)
        check("insert", keys)
        check("scatter_add", keys, values)
        check("assign", keys[:100], values[:100])
        check("gather", random.integers(-3000, 3000, 500))
        check("erase", random.integers(-2000, 2000, 700))
        check("find", keys)
        assert len(tables[0]) == len(tables[1])
    for expected, actual in zip(*(table.export() for table in tables)):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@skip_without_gpu
@pytest.mark.parametrize("how", ["current", "cupy", "handle", "protocol"])
def test_streams_take_turns(how):
    cupy = pytest.importorskip("cupy")
    table = HashTable(4, 100_000, initializer="zeros", device="cuda")
    keys = cupy.arange(50_000)
    ones = cupy.ones((50_000, 4), cupy.float32)
    table.insert(keys)
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(3)]
    cupy.cuda.get_current_stream().synchronize()
    for turn in range(9):
        stream = streams[turn % 3]
        with stream if how == "current" else contextlib.nullcontext():
            given = {"cupy": stream, "handle": stream.ptr, "protocol": _Stream(stream)}.get(how)
            table.scatter_add(keys, ones, stream=given)
            rows = table.gather(keys, stream=given)
    streams[8 % 3].synchronize()
    assert (rows == 9).all()


class _Stream:
    """A stream of which nothing is known but __cuda_stream__."""

    def __init__(self, stream):
        self._stream = stream  # keeps it

    def __cuda_stream__(self):
        return 0, self._stream.ptr
