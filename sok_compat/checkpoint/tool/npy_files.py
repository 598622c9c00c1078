# SPDX-License-Identifier: Apache-2.0
"""Keys and rows in .npy files, written and read in pieces."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from sok_compat.checkpoint.files.file_error import FileError, naming
from sok_compat.checkpoint.files.stored_array import PIECE_BYTES, StoredArray


class Whole:
    """A file with a temporary name until it is complete; removed if it never is."""

    def __init__(self, path: str, stack: contextlib.ExitStack) -> None:
        self.path, self.until = path, f"{path}.{os.getpid()}.unfinished"
        stack.callback(self._remove)

    def put_in_place(self) -> None:
        """Renames the complete file."""
        with naming(self.path):
            os.replace(self.until, self.path)

    def _remove(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.until)


class _NpyFile:
    """An array file, written in order of rows."""

    def __init__(self, path, array, stack):
        self.whole = Whole(path, stack)
        with naming(path):
            self._file = open(self.whole.until, "wb")  # noqa: SIM115
        stack.callback(self._give_up)
        header = {
            "descr": np.lib.format.dtype_to_descr(array.dtype),
            "fortran_order": False,
            "shape": array.shape,
        }
        np.lib.format.write_array_header_1_0(self._file, header)

    def append(self, rows):
        with naming(self.whole.path):
            self._file.write(np.ascontiguousarray(rows))

    def finish(self):
        with naming(self.whole.path):
            self._file.close()

    def _give_up(self):
        with contextlib.suppress(OSError):
            self._file.close()  # flushes, unless something has failed


class Writer:
    """Writes keys.npy, rows.npy, and rows.<plane>.npy for each further plane."""

    def __init__(
        self,
        paths: Sequence[str],
        keys: StoredArray,
        planes: Mapping[str, StoredArray],
        stack: contextlib.ExitStack,
    ) -> None:
        """`planes`: StoredArrays by name, rows first."""
        stem = os.path.splitext(paths[1])[0]
        more = [f"{stem}.{name}.npy" for name in list(planes)[1:]]
        arrays = (keys, *planes.values())
        check_names_differ([os.path.abspath(path) for path in (*paths, *more)])
        self._files = [_NpyFile(path, array, stack) for path, array in zip((*paths, *more), arrays)]

    def append(self, keys: np.ndarray, planes: Sequence[np.ndarray]) -> None:
        """Appends keys [n], and as many rows of each plane."""
        for file, array in zip(self._files, (keys, *planes)):
            file.append(array)

    def finish(self) -> list[str]:
        """Completes the files, and returns their paths."""
        for file in self._files:
            file.finish()
        for file in self._files:
            file.whole.put_in_place()
        return [file.whole.path for file in self._files]


class Reader:
    """Reads keys.npy [n] and rows.npy [n, dim]."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths
        self._keys, self._rows = map(_loaded, paths)
        kind = self._keys.dtype
        if kind.kind not in "iu" or kind == np.uint64 or self._keys.ndim != 1:
            raise FileError(
                f"{paths[0]} holds {kind} {list(self._keys.shape)}, expected keys: "
                "whole numbers [n] that are int64"
            )
        if self._rows.ndim != 2 or self._rows.dtype.kind != "f" or self._rows.shape[1] < 1:
            raise FileError(
                f"{paths[1]} holds {self._rows.dtype} {list(self._rows.shape)}, expected rows of "
                "floats [n, dim]"
            )
        if len(self._keys) != len(self._rows):
            raise FileError(
                f"{paths[0]} has {len(self._keys)} keys, and {paths[1]} {len(self._rows)} rows"
            )
        self.dim = self._rows.shape[1]

    def keys(self) -> np.ndarray:
        """All keys, int64."""
        return self._keys.astype(np.int64)

    def pieces(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields (keys int64 [n], rows float32 [n, dim])."""
        most = max(1, PIECE_BYTES // (4 * self.dim))
        for first in range(0, len(self._keys), most):
            chosen = slice(first, first + most)
            keys = self._keys[chosen].astype(np.int64)
            yield keys, as_float32(self.paths[1], keys, self._rows[chosen])


def as_float32(path: str, keys: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Converts the rows [n, dim] of `keys` [n] to float32.

    Raises:
      FileError: a number is out of range.
    """
    with np.errstate(over="ignore"):
        narrow = rows.astype(np.float32)
    lost = np.isinf(narrow) & ~np.isinf(rows)
    if lost.any():
        row, column = np.argwhere(lost)[0]
        raise FileError(
            f"{path}: the row of the key {keys[row]} has {rows[row, column]}, and the largest "
            f"float32 is {np.finfo(np.float32).max}"
        )
    return narrow


def check_names_differ(names: Sequence[str]) -> None:
    """Raises FileError if two outputs have the same name."""
    for number, name in enumerate(names):
        if name in names[:number]:
            raise FileError(f"two outputs have the name {name}: one would replace the other")


def _loaded(path):
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except (ValueError, EOFError, OverflowError, TypeError) as error:
        raise FileError(f"{path} is not a NumPy array, or cut off: {error}") from error
