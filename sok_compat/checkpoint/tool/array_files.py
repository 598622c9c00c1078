# SPDX-License-Identifier: Apache-2.0
"""Chooses between the formats of files with keys and rows: .npy and Parquet."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.tool import npy_files


def kind_of(paths: Sequence[str]) -> ModuleType:
    """The module with the Writer and Reader for these files: npy_files or parquet_files.

    Raises:
      FileError: the endings fit neither.
    """
    endings = [os.path.splitext(path)[1] for path in paths]
    if endings == [".parquet"]:
        from sok_compat.checkpoint.tool import parquet_files  # needs pyarrow

        return parquet_files
    if endings == [".npy", ".npy"]:
        return npy_files
    raise FileError(
        f"{' '.join(paths)}: give two files, of keys and of rows, that end in .npy, or one that "
        "ends in .parquet"
    )


def reader_of(paths: Sequence[str], table: str) -> Any:
    """The Reader of a table's keys and rows: also of several .parquet files, of `export` or of
    `changes`, applied one after the other.

    Raises:
      FileError: as kind_of and the Reader.
    """
    if {os.path.splitext(path)[1] for path in paths} == {".parquet"}:
        from sok_compat.checkpoint.tool import parquet_changes  # needs pyarrow

        if len(paths) > 1 or parquet_changes.has_changes(paths[0]):
            return parquet_changes.Reader(paths, table)
    return kind_of(paths).Reader(paths)
