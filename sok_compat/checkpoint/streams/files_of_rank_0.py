# SPDX-License-Identifier: Apache-2.0
"""Checkpoints whose files are only on rank 0's disk, for hosts that share no disk."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator

import tensorflow as tf

from sok_compat.checkpoint.streams.stored_tensors import chain_of
from sok_compat.ranks.allgather_strings import allgather_bytes, allgather_strings, value_of_rank_0
from sok_compat.ranks.identity import current_ranks
from sok_compat.runtime.settings import CHECKPOINTS_ON_RANK_0
from sok_compat.runtime.tf_versions import checkpoint_management

_BLOCK_BYTES = 4 << 20
_DATA, _ERROR = b"d", b"e"


def are_on_rank_0() -> bool:
    """Whether rank 0 writes and reads all checkpoint files; all ranks agree.

    Raises:
      ValueError: the environment variable has an invalid value.
    """
    return CHECKPOINTS_ON_RANK_0.value()


@contextlib.contextmanager
def path_on_this_rank(path: str, graph: tf.Graph | None) -> Iterator[str]:
    """Context with the path at which this rank can read rank 0's checkpoint.

    While it is open, the other ranks have a copy in a temporary folder. All ranks call this; rank
    0's path counts.

    Args:
      graph: of the session that restores it; None in eager mode.

    Raises:
      ValueError: rank 0 has no checkpoint there.
      tf.errors.OpError: it cannot be read or copied; raised on all ranks.
    """
    copy = copy_of_rank_0(path, graph)
    try:
        yield copy.path
    finally:
        copy.remove()


def copy_of_rank_0(path: str, graph: tf.Graph | None = None) -> Copy:
    """Copies rank 0's checkpoint to the other ranks; as path_on_this_rank, but not a context."""
    path, *files = value_of_rank_0("checkpoint_of_rank_0", lambda: _files_of(path), graph)
    if current_ranks().rank == 0:
        for name, num_bytes in files:
            _send(os.path.join(os.path.dirname(path), name), num_bytes, graph)
        _check_all_have_it(None, graph)
        return Copy(path)
    folder = _Folder()
    try:
        for name, num_bytes in files:
            folder.receive(name, num_bytes, graph)
        _check_all_have_it(folder.error, graph)
    except BaseException:
        folder.remove()
        raise
    return Copy(os.path.join(folder.path, os.path.basename(path)), folder)


class Copy:
    """A copy of rank 0's checkpoint, deleted by `remove` or with this object; on rank 0, the
    checkpoint itself.

    path: at which this rank can read it.
    """

    def __init__(self, path: str, folder: _Folder | None = None) -> None:
        self.path = path
        self._folder = folder
        if folder is not None:
            _copies[path] = self

    def remove(self) -> None:
        """Deletes the copy; never rank 0's checkpoint."""
        if self._folder is not None:
            self._folder.remove()


_copies: weakref.WeakValueDictionary[str, Copy] = weakref.WeakValueDictionary()  # by path


def copy_at(path: str) -> Copy | None:
    """The Copy at a path, which exists while a reference is kept; None if the path has no copy."""
    return _copies.get(path)


def _files_of(path):
    """[path, *[name of a file in its folder, its size]], with the checkpoints that it needs."""
    path = tf.compat.as_text(path)
    if not checkpoint_management.checkpoint_exists_internal(path):
        raise ValueError(f"The passed save_path is not a valid checkpoint: {path}")
    files = []
    for each in chain_of(path):
        # A replaced checkpoint may have left data files for another number of shards.
        files += [f"{each}.index", *sorted(tf.io.gfile.glob(f"{each}.data-?????-of-?????"))]
    return [path, *([os.path.basename(file), tf.io.gfile.stat(file).length] for file in files)]


def _send(path, num_bytes, graph):
    """Sends a file in blocks, or an error to the waiting ranks."""
    error = None
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            for first in range(0, num_bytes, _BLOCK_BYTES):
                count = min(_BLOCK_BYTES, num_bytes - first)
                data = file.read(count)
                if len(data) < count:
                    raise tf.errors.DataLossError(None, None, f"{path} has become shorter")
                allgather_bytes("file_of_rank_0", _DATA + data, graph)
    except (tf.errors.DataLossError, tf.errors.NotFoundError, tf.errors.PermissionDeniedError) as e:
        error = e
    if error is not None:
        allgather_bytes("file_of_rank_0", _ERROR + str(error).encode(), graph)
        raise error


class _Folder:
    """A temporary folder for rank 0's files, deleted by `remove` or with this object.

    error: this rank's first OSError, if any. It still receives all blocks, as rank 0 waits for it.
    """

    def __init__(self):
        self.path = self.error = None
        self._try(self._make)

    def remove(self):
        """Deletes the folder, if it was created."""
        if self.path is not None:
            self._end()

    def receive(self, name, num_bytes, graph):
        """Receives one file."""
        with contextlib.ExitStack() as stack:
            file = self._try(lambda: stack.enter_context(open(f"{self.path}/{name}", "wb")))
            for _ in range(0, num_bytes, _BLOCK_BYTES):
                message, *_ = allgather_bytes("file_of_rank_0", b"", graph)
                if message[:1] == _ERROR:
                    raise tf.errors.UnknownError(None, None, f"rank 0: {message[1:].decode()}")
                self._try(lambda data=message[1:]: file.write(data))

    def _make(self):
        self.path = tempfile.mkdtemp(prefix="sok_checkpoint_")
        self._end = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def _try(self, do, *args):
        if self.error is None:
            try:
                return do(*args)
            except OSError as error:
                self.error = error
        return None


def _check_all_have_it(error, graph):
    for rank, problem in enumerate(allgather_strings("copied_checkpoint", str(error or ""), graph)):
        if problem:
            raise tf.errors.UnknownError(
                None, None, f"rank {rank} cannot copy the checkpoint of rank 0: {problem}"
            )
