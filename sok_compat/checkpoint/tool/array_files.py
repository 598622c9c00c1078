# SPDX-License-Identifier: Apache-2.0
"""Keys and rows in files of other programs: .npy, written and read piece by piece; which of them
and Parquet is asked for."""

import contextlib
import os

import numpy as np

from sok_compat.checkpoint.files.file_error import FileError, naming
from sok_compat.checkpoint.files.stored_array import PIECE_BYTES


def kind_of(paths):
    """The module whose Writer and Reader are for these files: this one, or parquet_files.

    Raises:
      FileError: there is none.
    """
    endings = [os.path.splitext(path)[1] for path in paths]
    if endings == [".parquet"]:
        from sok_compat.checkpoint.tool import parquet_files

        return parquet_files
    if endings == [".npy", ".npy"]:
        import sok_compat.checkpoint.tool.array_files as npy_files

        return npy_files
    raise FileError(
        f"{' '.join(paths)}: give two files, of keys and of rows, that end in .npy, or one that "
        "ends in .parquet"
    )


class Whole:
    """A file under another name until it is complete; removed again if it never is."""

    def __init__(self, path, stack):
        self.path, self.until = path, f"{path}.{os.getpid()}.unfinished"
        stack.callback(self._remove)

    def put_in_place(self):
        with naming(self.path):
            os.replace(self.until, self.path)

    def _remove(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.until)


class _NpyFile:
    """An array that is written from its first row to its last."""

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
            self._file.close()  # writes what it has not yet, where nothing has failed


class Writer:
    """keys.npy, rows.npy, and rows.<plane>.npy for what more there is."""

    def __init__(self, paths, keys, planes, stack):
        """`planes`: StoredArrays by name, of which the first are the rows."""
        stem = os.path.splitext(paths[1])[0]
        more = [f"{stem}.{name}.npy" for name in list(planes)[1:]]
        arrays = (keys, *planes.values())
        self._files = [_NpyFile(path, array, stack) for path, array in zip((*paths, *more), arrays)]

    def append(self, keys, planes):
        for file, array in zip(self._files, (keys, *planes)):
            file.append(array)

    def finish(self):
        """The paths, now that the files are in their places."""
        for file in self._files:
            file.finish()
        for file in self._files:
            file.whole.put_in_place()
        return [file.whole.path for file in self._files]


class Reader:
    """keys.npy [n] and rows.npy [n, dim]."""

    def __init__(self, paths):
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
        self.num_keys, self.dim = self._rows.shape

    def key_pieces(self, most_rows):
        """Yields (first, keys int64)."""
        for first in range(0, self.num_keys, most_rows):
            yield first, self._keys[first : first + most_rows].astype(np.int64)

    def pieces(self):
        """Yields (keys int64 [n], rows float32 [n, dim])."""
        most = max(1, PIECE_BYTES // (4 * self.dim))
        for first in range(0, self.num_keys, most):
            chosen = slice(first, first + most)
            yield self._keys[chosen].astype(np.int64), self._rows[chosen].astype(np.float32)


def _loaded(path):
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise FileError(f"{path} is no array of NumPy's, or cut off: {error}") from error
