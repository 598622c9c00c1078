# SPDX-License-Identifier: Apache-2.0
"""Checkpoints whose files are on the disk of rank 0 alone, where each host has one of its own."""

import contextlib
import os
import shutil
import tempfile
import weakref

import tensorflow as tf

from sok_compat.checkpoint.series import chain_of
from sok_compat.runtime.ranks import horovod_ranks
from sok_compat.runtime.shared_texts import share_bytes, share_text, value_of_rank_0
from sok_compat.runtime.tf_versions import checkpoint_management

VARIABLE = "SOK_CHECKPOINTS_ON_RANK_0"
_BLOCK_BYTES = 4 << 20
_DATA, _ERROR = b"d", b"e"


def are_on_rank_0():
    """Whether rank 0 writes and reads all files of checkpoints; the same for all ranks.

    Raises:
      ValueError: the environment variable is none of what it may be.
    """
    value = os.environ.get(VARIABLE, "0")
    if value not in ("0", "1"):
        raise ValueError(
            f"{VARIABLE} must be 0, all ranks write to a disk that they share, or 1, rank 0 writes "
            f"all files, got {value!r}"
        )
    return value == "1"


@contextlib.contextmanager
def path_on_this_rank(path, graph):
    """The path by which this rank can read a checkpoint that rank 0 has: while this is open, others
    have a copy in a temporary folder. All ranks come here.

    Args:
      path: of the checkpoint; rank 0's counts.
      graph: of the session that restores it.

    Raises:
      ValueError: rank 0 has none there.
      tf.errors.OpError: it cannot be read, or copied; on all ranks.
    """
    copy = copy_of_rank_0(path, graph)
    try:
        yield copy.path
    finally:
        copy.remove()


def copy_of_rank_0(path, graph=None):
    """A Copy of a checkpoint that rank 0 has. All ranks come here; as path_on_this_rank."""
    path, *files = value_of_rank_0("checkpoint_of_rank_0", lambda: _files_of(path), graph)
    if horovod_ranks().rank == 0:
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
    """Of rank 0's checkpoint, there until `remove`, or until nobody has this any more; on rank 0
    itself the checkpoint.

    path: by which this rank can read it.
    """

    def __init__(self, path, folder=None):
        self.path = path
        self._folder = folder
        if folder is not None:
            _copies[path] = self

    def remove(self):
        """Of rank 0's own, nothing."""
        if self._folder is not None:
            self._folder.remove()


_copies = weakref.WeakValueDictionary()  # {path: Copy}


def copy_at(path):
    """The Copy that is there, for who needs it to stay; None: it is no copy."""
    return _copies.get(path)


def _files_of(path):
    """[path, *[name of a file in its folder, its size]]; of an increment, what it needs, too."""
    path = tf.compat.as_text(path)
    if not checkpoint_management.checkpoint_exists(path):
        raise ValueError(f"The passed save_path is not a valid checkpoint: {path}")
    files = []
    for each in chain_of(path):
        # Of a checkpoint that a save has replaced, data with other numbers of files may be there.
        files += [f"{each}.index", *sorted(tf.io.gfile.glob(f"{each}.data-?????-of-?????"))]
    return [path, *([os.path.basename(file), tf.io.gfile.stat(file).length] for file in files)]


def _send(path, num_bytes, graph):
    """What fails is told to the others, who wait."""
    error = None
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            for first in range(0, num_bytes, _BLOCK_BYTES):
                count = min(_BLOCK_BYTES, num_bytes - first)
                data = file.read(count)
                if len(data) < count:
                    raise tf.errors.DataLossError(None, None, f"{path} has become shorter")
                share_bytes("file_of_rank_0", _DATA + data, graph)
    except (tf.errors.DataLossError, tf.errors.NotFoundError, tf.errors.PermissionDeniedError) as e:
        error = e
    if error is not None:
        share_bytes("file_of_rank_0", _ERROR + str(error).encode(), graph)
        raise error


class _Folder:
    """A temporary one, for what rank 0 sends, until `remove`, or until nobody has this any more.

    error: what keeps this rank from having it. It goes on to take what rank 0 sends, which waits.
    """

    def __init__(self):
        self.path = self.error = None
        self._try(self._make)

    def remove(self):
        """If it is there."""
        if self.path is not None:
            self._end()

    def receive(self, name, num_bytes, graph):
        """Takes one file."""
        with contextlib.ExitStack() as stack:
            file = self._try(lambda: stack.enter_context(open(f"{self.path}/{name}", "wb")))
            for _ in range(0, num_bytes, _BLOCK_BYTES):
                said, *_ = share_bytes("file_of_rank_0", b"", graph)
                if said[:1] == _ERROR:
                    raise tf.errors.UnknownError(None, None, f"rank 0: {said[1:].decode()}")
                self._try(lambda data=said[1:]: file.write(data))

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
    for rank, said in enumerate(share_text("copied_checkpoint", str(error or ""), graph)):
        if said:
            raise tf.errors.UnknownError(
                None, None, f"rank {rank} cannot have a copy of the checkpoint of rank 0: {said}"
            )
