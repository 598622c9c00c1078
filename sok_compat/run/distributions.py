# SPDX-License-Identifier: Apache-2.0
"""Answers scripts that ask whether the distribution `tensorflow` is DeepRec's.

They look for "deeprec" in `pkg_resources.get_distribution("Tensorflow").version`, or in
`importlib.metadata.version("tensorflow")`. Both read the folders of sys.path in order, so a first
folder with metadata answers them; it also does where only `tensorflow-cpu` is installed.
"""

from __future__ import annotations

import atexit
import importlib.metadata
import os
import shutil
import sys
import tempfile
from pathlib import Path

_INSTALLED = ("tensorflow", "tensorflow-cpu")
_OF_DEEPREC = "deeprec2402"  # its last release
_folder: str | None = None  # on sys.path; None: distributions are as installed


def answer_as_deeprec() -> None:
    """Makes the distribution `tensorflow` one of DeepRec, with the installed TensorFlow's version.

    Does nothing if no TensorFlow is installed. The folder ends with the process.
    """
    global _folder
    version = _version_of_tensorflow()
    if _folder is not None or version is None:
        return
    _folder = tempfile.mkdtemp(prefix="sok_compat_")
    atexit.register(_remove, _folder, os.getpid())
    version = f"{version.partition('+')[0]}+{_OF_DEEPREC}"
    metadata = Path(_folder, f"tensorflow-{version}.dist-info", "METADATA")
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: tensorflow\nVersion: {version}\n")
    sys.path.insert(1, _folder)  # behind the script's folder


def answer_as_installed() -> None:
    """Undoes answer_as_deeprec, but not in a pkg_resources that was imported before."""
    global _folder
    if _folder is not None:
        sys.path[:] = [each for each in sys.path if each != _folder]
        _remove(_folder, os.getpid())
        _folder = None


def _version_of_tensorflow() -> str | None:
    for name in _INSTALLED:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return None


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # not in a fork of the process
        shutil.rmtree(folder, ignore_errors=True)
