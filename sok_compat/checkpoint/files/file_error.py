# SPDX-License-Identifier: Apache-2.0
"""Errors of files: `FileError`, and OSErrors that name their file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class FileError(Exception):
    """A file has unexpected contents; the message names it."""


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Adds the file's name to an OSError that has none."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or path
        raise


@contextlib.contextmanager
def as_file_errors() -> Iterator[None]:
    """Raises the errors of the engine's module as FileErrors."""
    try:
        yield
    except (ValueError, OSError, RuntimeError) as error:
        raise FileError(str(error)) from None
