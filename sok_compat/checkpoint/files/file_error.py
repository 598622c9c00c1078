# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a file: `FileError`, or an OSError that names it."""

import contextlib


class FileError(Exception):
    """A file that is not what it has to be; the message names it."""


@contextlib.contextmanager
def naming(path):
    """Gives an OSError the file that it is about, where the system does not say it."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or path
        raise
