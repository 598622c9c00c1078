# SPDX-License-Identifier: Apache-2.0
"""`Bundle`: a TensorFlow checkpoint, an index with its data files. The engine's module has the
format."""

from __future__ import annotations

import dataclasses
import functools

from sok_compat.checkpoint.files.file_error import FileError, as_file_errors
from sok_compat.checkpoint.files.stored_array import TWO_BYTES, StoredArray
from sok_compat.engine import _engine

_NUMBERS = (*TWO_BYTES, "float32", "float64", "int64", "int32", "int16", "int8", "uint64", "uint32",
            "uint16", "uint8", "bool", "complex64", "complex128")  # fmt: skip


@dataclasses.dataclass(frozen=True)
class BundleTensor:
    """A tensor of a checkpoint, and how many bytes of the data files it takes."""

    dtype: str
    shape: tuple[int, ...]
    num_bytes: int


class Bundle:
    """A checkpoint `<prefix>.index` with `<prefix>.data-0000r-of-0000N`.

    Attributes:
      prefix: path of the checkpoint, without `.index`.
      num_shards: number of data files.
      tensors: {name: BundleTensor}.
    """

    def __init__(self, prefix: str) -> None:
        """Reads the index.

        Raises:
          FileError: the index cannot be read or is damaged, or a data file is missing or too short.
        """
        self.prefix = prefix
        with as_file_errors():
            self._saved = _engine.Bundle(prefix)
            self.tensors = {each[0]: BundleTensor(*each[1:]) for each in self._saved.tensors()}
        self.num_shards: int = self._saved.num_shards

    def array(self, name: str) -> StoredArray:
        """The StoredArray of a tensor of a numeric dtype.

        Raises:
          FileError: NumPy lacks the dtype, a slice is missing, or one does not hold whole rows.
        """
        tensor = self.tensors[name]
        if tensor.dtype not in _NUMBERS:
            raise FileError(f"{self.prefix}.index: {name} is {tensor.dtype}, which NumPy lacks")
        with as_file_errors():
            files = tuple(self._saved.pieces(name))
        return StoredArray(
            tensor.dtype,
            tensor.shape,
            files,
            (functools.partial(self._saved.verify, name),),
        )

    def check(self, name: str) -> bool:
        """Reads a tensor of any dtype.

        Returns:
          Whether its checksum could be verified.

        Raises:
          FileError: the checksum does not match, or the file ends early.
        """
        with as_file_errors():
            return self._saved.verify(name)

    def signature(self, name: str) -> str:
        """The dtype, slices and checksums of a tensor."""
        with as_file_errors():
            return self._saved.signature(name)

    def series(self) -> tuple[str, str | None] | None:
        """(id of the checkpoint in its series, id of the one that it is an increment of or None).

        Returns:
          None if it belongs to no series.

        Raises:
          FileError: the entry is damaged.
        """
        with as_file_errors():
            return self._saved.series()

    @functools.cached_property
    def data_bytes(self) -> int:
        """Bytes that all tensors take in the data files."""
        return sum(tensor.num_bytes for tensor in self.tensors.values())
