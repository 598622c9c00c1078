# SPDX-License-Identifier: Apache-2.0
"""HashTable on a GPU: the same as on the CPU, and a clear error where there is no GPU."""

import numpy as np
import pytest

from sok_compat import HashTable
from sok_compat.engine import CapacityError


def _why_no_gpu():
    try:
        HashTable(1, device="cuda")
    except RuntimeError as error:
        return str(error)
    return None


WHY_NO_GPU = _why_no_gpu()
needs_gpu = pytest.mark.skipif(WHY_NO_GPU is not None, reason=str(WHY_NO_GPU))


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


@pytest.fixture(params=["numpy", "cupy"])
def put(request):
    """Gives keys and rows to the GPU's table as arrays of NumPy or of CuPy."""
    if request.param == "numpy":
        return np.asarray
    return pytest.importorskip("cupy").asarray


@needs_gpu
@pytest.mark.parametrize("dim", [1, 6, 16])
def test_same_as_on_the_cpu(put, dim):
    random = np.random.default_rng(1)
    tables = [HashTable(dim, 5000, name="t", seed=3, device=d) for d in ("cpu", "cuda:0")]

    def check(call, *arrays):
        expected = getattr(tables[0], call)(*arrays)
        actual = getattr(tables[1], call)(*map(put, arrays))
        if expected is not None:
            np.testing.assert_allclose(_to_host(actual), expected, rtol=1e-5, atol=1e-6)

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
    for expected, actual in zip(tables[0].export(), tables[1].export()):
        np.testing.assert_allclose(_to_host(actual), expected, rtol=1e-5, atol=1e-6)
    tables[1].clear()
    assert len(tables[1]) == tables[1].row_bytes == 0


@needs_gpu
def test_errors_on_a_gpu(put):
    table = HashTable(2, 3, name="users", key_dtype="uint32", device="cuda")
    table.insert(put([1, 2]))
    with pytest.raises(CapacityError, match="'users' is full: its capacity is 3 keys, it holds 2"):
        table.insert(put([3, 4, 1]))
    assert _to_host(table.find(put([1, 2, 3, 4]))).tolist() == [0, 1, -1, -1]
    with pytest.raises(KeyError, match="does not hold the key 9 at position 1"):
        table.scatter_add(put([1, 9]), put(np.ones((2, 2), np.float32)))
    with pytest.raises(ValueError, match="uint32 keys go from 0 to 4294967295, got -1"):
        table.find(put([1, -1]))
    with pytest.raises(ValueError, match="one dimension"):
        table.find(put([[1]]))
    with pytest.raises(TypeError, match="integers"):
        table.find(put([1.5]))
    with pytest.raises(ValueError, match="shape"):
        table.insert(put([1]), rows=put(np.ones((1, 3), np.float32)))


@needs_gpu
def test_streams_take_turns():
    cupy = pytest.importorskip("cupy")
    table = HashTable(4, 100_000, initializer="zeros", device="cuda")
    keys = cupy.arange(50_000)
    ones = cupy.ones((50_000, 4), cupy.float32)
    table.insert(keys)
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(3)]
    cupy.cuda.get_current_stream().synchronize()
    for turn in range(9):
        with streams[turn % 3]:
            table.scatter_add(keys, ones)
            rows = table.gather(keys)
    streams[8 % 3].synchronize()
    assert (rows == 9).all()


def _to_host(array):
    return array.get() if hasattr(array, "get") else array
