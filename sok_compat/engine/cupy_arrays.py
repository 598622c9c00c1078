# SPDX-License-Identifier: Apache-2.0
"""Arrays of tables on a GPU: CuPy's, on a stream of the caller."""

import contextlib

import numpy as np

from sok_compat.engine.arrays import as_keys, as_rows, check_key_array, check_row_array


class CupyArrays:
    """What HashTable wants of arrays; see numpy_arrays.NumpyArrays for those of the CPU.

    Memory of arrays that are dropped while kernels use them is only used again on the stream that
    was current when CuPy made them, so that is the stream that calls go to. All methods are for
    within `on_stream`.

    Raises:
      RuntimeError: if CuPy is missing.
    """

    def __init__(self, device: int):
        self._device = device
        self._cupy = _import_cupy()

    @contextlib.contextmanager
    def on_stream(self, stream):
        """Calls and arrays within are on the table's GPU and `stream`; None: CuPy's current one."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._cupy.cuda.Device(self._device))
            if stream is not None:
                stack.enter_context(self._as_stream(stream))
            yield

    def keys(self, keys, key_dtype: np.dtype):
        """`keys` as a contiguous int64 vector on the GPU; see arrays.as_keys."""
        if not _is_on_gpu(keys):
            return self._cupy.asarray(as_keys(keys, key_dtype))
        array = self._as_cupy(keys, "keys")
        check_key_array(array, key_dtype)
        return self._cupy.ascontiguousarray(array, dtype=np.int64)

    def rows(self, rows, num_keys: int, dim: int, what: str):
        """`rows` as a contiguous float32 matrix [num_keys, dim] on the GPU."""
        if not _is_on_gpu(rows):
            return self._cupy.asarray(as_rows(rows, num_keys, dim, what))
        array = self._as_cupy(rows, what)
        check_row_array(array, num_keys, dim, what)
        return self._cupy.ascontiguousarray(array, dtype=np.float32)

    def empty(self, shape, dtype):
        return self._cupy.empty(shape, dtype)

    @staticmethod
    def address(array) -> int:
        return array.data.ptr

    def current_stream(self) -> int:
        return self._cupy.cuda.get_current_stream().ptr

    def _as_stream(self, stream):
        """A CuPy stream for what the caller calls a stream."""
        if hasattr(stream, "ptr"):
            return stream
        if hasattr(stream, "__cuda_stream__"):
            _, stream = stream.__cuda_stream__()
        if isinstance(stream, bool) or not isinstance(stream, int):
            raise TypeError(
                "stream must be a stream of CuPy, an object with __cuda_stream__, or the handle of "
                f"a stream as an integer, got {stream!r}"
            )
        return self._cupy.cuda.ExternalStream(stream, self._device)

    def _as_cupy(self, array, what: str):
        """The same memory as a CuPy array."""
        has_interface = hasattr(array, "__cuda_array_interface__")
        array = self._cupy.asarray(array) if has_interface else self._cupy.from_dlpack(array)
        if array.device.id != self._device:
            raise ValueError(
                f"{what} must be on the table's GPU, cuda:{self._device}, "
                f"got an array on cuda:{array.device.id}"
            )
        return array


def _is_on_gpu(array) -> bool:
    if hasattr(array, "__cuda_array_interface__"):
        return True
    dlpack_device = getattr(array, "__dlpack_device__", None)
    return dlpack_device is not None and dlpack_device()[0] == 2  # kDLCUDA


def _import_cupy():
    try:
        import cupy
    except ImportError as error:
        raise RuntimeError(
            "HashTable on a GPU gives and takes CuPy arrays, and CuPy cannot be imported "
            f"({error}); pip install cupy-cuda12x or cupy-cuda13x, as your driver wants"
        ) from None
    return cupy
