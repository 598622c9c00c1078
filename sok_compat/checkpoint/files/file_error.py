# SPDX-License-Identifier: Apache-2.0
"""`FileError`: what is wrong with a file."""


class FileError(Exception):
    """A file that is not what it has to be; the message names it."""
