# SPDX-License-Identifier: Apache-2.0
"""`import`: writes arrays as a dump that scripts can restore."""

from __future__ import annotations

import argparse
import os

import numpy as np

from sok_compat.checkpoint.files.compare import sorted_keys
from sok_compat.checkpoint.files.dump_files import ENDINGS, write_dump
from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.tool import array_files
from sok_compat.checkpoint.tool.sizes import counted


def run(options: argparse.Namespace) -> int:
    """Writes the dump atomically; returns the exit status."""
    name = options.table
    reader = array_files.reader_of(options.files, name)
    _check_keys(reader, options.key_dtype)
    folder, key_dtype = options.path, options.key_dtype
    num_keys = write_dump(folder, name, reader.dim, reader.pieces(), key_dtype)
    paths = ", ".join(os.path.join(folder, name + ending) for ending in ENDINGS)
    print(f"{counted(num_keys, 'key')} of {name}: {paths}")
    return 0


def _check_keys(reader, key_dtype):
    limits = np.iinfo(key_dtype)
    keys, _ = sorted_keys(reader.keys(), reader.paths[:1])
    for key in (*keys[:1], *keys[-1:]):
        if not limits.min <= key <= limits.max:
            raise FileError(f"{reader.paths[0]}: the key {key} is no {key_dtype}")
