# SPDX-License-Identifier: Apache-2.0
"""Answers scripts that ask whether the distribution `tensorflow` is DeepRec's.

They look for "deeprec" in `pkg_resources.get_distribution("Tensorflow").version`, or in
`importlib.metadata.version("tensorflow")`. Both read the folders and archives of sys.path in order,
so a first archive with metadata answers them; it also does where only `tensorflow-cpu` is
installed. The archive has no name on disk, so that nothing stays behind however the process ends.
"""

from __future__ import annotations

import importlib.metadata
import sys
import tempfile
import zipfile
from typing import IO

_INSTALLED = ("tensorflow", "tensorflow-cpu")
_OF_DEEPREC = "deeprec2402"  # its last release
_archive: IO[bytes] | None = None  # on sys.path; None: distributions are as installed


def answer_as_deeprec() -> None:
    """Makes the distribution `tensorflow` one of DeepRec, with the installed TensorFlow's version.

    Does nothing if no TensorFlow is installed.
    """
    global _archive
    version = _version_of_tensorflow()
    if _archive is not None or version is None:
        return
    version = f"{version.partition('+')[0]}+{_OF_DEEPREC}"
    _archive = tempfile.TemporaryFile(prefix="sok_compat_")  # noqa: SIM115  open to the end
    with zipfile.ZipFile(_archive, "w") as archive:
        archive.writestr(
            f"tensorflow-{version}.dist-info/METADATA",
            f"Metadata-Version: 2.1\nName: tensorflow\nVersion: {version}\n",
        )
    _archive.flush()
    sys.path.insert(1, _path_of(_archive))  # behind the script's folder


def answer_as_installed() -> None:
    """Undoes answer_as_deeprec, but not in a pkg_resources that was imported before."""
    global _archive
    if _archive is not None:
        path = _path_of(_archive)
        sys.path[:] = [each for each in sys.path if each != path]
        _archive.close()
        _archive = None


def _path_of(file: IO[bytes]) -> str:
    return f"/proc/self/fd/{file.fileno()}"


def _version_of_tensorflow() -> str | None:
    for name in _INSTALLED:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return None
