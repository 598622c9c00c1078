# SPDX-License-Identifier: Apache-2.0
"""Arrays of tables on a GPU: CuPy's, on the caller's stream."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

from sok_compat.engine.arrays import as_keys, as_rows, check_key_array, check_row_array


class CupyArrays:
    """HashTable's interface to arrays on a GPU; see numpy_arrays.NumpyArrays for the CPU.

    Call the other methods inside `on_stream` only. Calls use CuPy's current stream, because CuPy
    reuses the memory of a freed array on the stream that was current when it was made.

    Raises:
      RuntimeError: CuPy is missing.
    """

    def __init__(self, device: int) -> None:
        self._device = device
        self._cupy = _import_cupy()

    @contextlib.contextmanager
    def on_stream(self, stream: Any) -> Iterator[None]:
        """Context of calls and arrays on the table's GPU and `stream`; None: CuPy's current one."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._cupy.cuda.Device(self._device))
            if stream is not None:
                stack.enter_context(self._as_stream(stream))
            yield

    def keys(self, keys: Any, key_dtype: np.dtype) -> Any:
        """Returns `keys` as a contiguous int64 vector on the GPU; see arrays.as_keys."""
        if not _is_on_gpu(keys):
            return self._cupy.asarray(as_keys(keys, key_dtype))
        array = self._as_cupy(keys, "keys")
        check_key_array(array, key_dtype)
        return self._cupy.ascontiguousarray(array, dtype=np.int64)

    def rows(self, rows: Any, num_keys: int, dim: int, what: str) -> Any:
        """Returns `rows` as a contiguous float32 matrix [num_keys, dim] on the GPU."""
        if not _is_on_gpu(rows):
            return self._cupy.asarray(as_rows(rows, num_keys, dim, what))
        array = self._as_cupy(rows, what)
        check_row_array(array, num_keys, dim, what)
        return self._cupy.ascontiguousarray(array, dtype=np.float32)

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        """Returns an uninitialized array on the GPU."""
        return self._cupy.empty(shape, dtype)

    @staticmethod
    def address(array: Any) -> int:
        """Returns the address of an array's first element."""
        return array.data.ptr

    def current_stream(self) -> int:
        """Returns the handle of CuPy's current stream."""
        return self._cupy.cuda.get_current_stream().ptr

    def _as_stream(self, stream: Any) -> Any:
        """Converts the caller's stream to a CuPy stream."""
        if hasattr(stream, "ptr"):
            return stream
        if hasattr(stream, "__cuda_stream__"):
            _, stream = stream.__cuda_stream__()
        if isinstance(stream, bool) or not isinstance(stream, int):
            raise TypeError(
                "stream must be a CuPy stream, an object with __cuda_stream__, or a stream's "
                f"handle as an integer, got {stream!r}"
            )
        return self._cupy.cuda.ExternalStream(stream, self._device)

    def _as_cupy(self, array: Any, what: str) -> Any:
        """Returns a CuPy array that shares the array's memory."""
        has_interface = hasattr(array, "__cuda_array_interface__")
        array = self._cupy.asarray(array) if has_interface else self._cupy.from_dlpack(array)
        if array.device.id != self._device:
            raise ValueError(
                f"{what} must be on the table's GPU, cuda:{self._device}, "
                f"got an array on cuda:{array.device.id}"
            )
        return array


def _is_on_gpu(array: Any) -> bool:
    if hasattr(array, "__cuda_array_interface__"):
        return True
    dlpack_device = getattr(array, "__dlpack_device__", None)
    return dlpack_device is not None and dlpack_device()[0] == 2  # kDLCUDA


def _import_cupy() -> ModuleType:
    try:
        import cupy
    except ImportError as error:
        raise RuntimeError(
            "HashTable on a GPU takes and returns CuPy arrays, but CuPy cannot be imported "
            f"({error}); pip install cupy-cuda12x or cupy-cuda13x, to match your driver"
        ) from None
    return cupy
