# SPDX-License-Identifier: Apache-2.0
"""The checkpoints of a folder, as versions to serve."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import os

from sok_compat.checkpoint.files.bundle import Bundle
from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.files.increments import chain_of, increments_of
from sok_compat.checkpoint.files.saved_tables import checkpoint_prefix, listed_checkpoints


@dataclasses.dataclass(frozen=True)
class Version:
    """A checkpoint, whole or an increment.

    Attributes:
      prefix: path of the checkpoint.
      id: unique, unlike the path, which may be written again.
      base_id: id of the checkpoint that it is an increment of; None if it is whole.
      seconds: when it was written, since 1970.
    """

    prefix: str
    id: str
    base_id: str | None
    seconds: float

    @property
    def name(self) -> str:
        """The file's name, such as 'model.ckpt-1000'."""
        return os.path.basename(self.prefix)

    @classmethod
    def at(cls, prefix: str) -> Version:
        """Reads the index; raises FileError if that cannot be read."""
        series = Bundle(prefix).series()
        try:
            written = os.stat(f"{prefix}.index")
        except OSError as error:
            raise FileError(f"{prefix}.index: {error.strerror}") from error
        own, base = series or (f"{written.st_ino} {written.st_mtime_ns}", None)
        return cls(prefix, own, base, written.st_mtime)


def state_of_folder(folder: str) -> tuple:
    """What changes whenever a checkpoint's file in the folder does; () if there is no folder.

    Raises:
      OSError: the folder cannot be read.
    """
    found = []
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if name == "checkpoint" or name.endswith(".index") or ".data-" in name:
                with contextlib.suppress(OSError):  # whoever reads the file tells
                    written = entry.stat()
                    found.append((name, written.st_size, written.st_mtime_ns))
    return tuple(sorted(found))


def latest_version(folder: str) -> Version | None:
    """The checkpoint that the folder's `checkpoint` file names; None if there is no such file.

    Raises:
      FileError: the file does not lead to a checkpoint, or that cannot be read.
    """
    if not os.path.isfile(os.path.join(folder, "checkpoint")):
        return None
    prefix = checkpoint_prefix(folder)
    return None if prefix is None else Version.at(prefix)


def chain_to(version: Version) -> list[Version]:
    """The Versions that a checkpoint consists of: a whole one, each increment, itself last.

    Raises:
      FileError: one is missing or has been replaced.
    """
    return [Version.at(prefix) for prefix in chain_of(version.prefix)]


def versions_in(folder: str) -> list[Version]:
    """The checkpoints of a folder as they were written; those that cannot be read are left out."""
    found = []
    for index in glob.glob(os.path.join(glob.escape(folder), "*.index")):
        with contextlib.suppress(FileError):
            found.append(Version.at(index.removesuffix(".index")))
    return sorted(found, key=lambda version: version.seconds)


def names_before(version: Version) -> list[str]:
    """The names that the `checkpoint` file beside a checkpoint lists before it; [] if it does not
    list it. Files' times may be those of copies."""
    with contextlib.suppress(FileError, OSError):
        listed = listed_checkpoints(os.path.dirname(version.prefix))
        if version.name in listed:
            return listed[: listed.index(version.name)]
    return []


def whole_chains_in(folder: str) -> list[list[Version]]:
    """For each whole checkpoint, the last first, that and those of its increments whose links are
    there."""
    wholes = [version for version in versions_in(folder) if version.base_id is None]
    return [[whole, *versions_after(whole)] for whole in reversed(wholes)]


def versions_after(version: Version) -> list[Version]:
    """The increments in the folder that a checkpoint leads to, in their order, by files that can be
    read; [] if it is not there any more."""
    found: list[Version] = []
    with contextlib.suppress(FileError):
        if Version.at(version.prefix).id != version.id:
            return []
        for prefix in increments_of(Bundle(version.prefix)):
            found.append(Version.at(prefix))
    return found
