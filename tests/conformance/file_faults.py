# SPDX-License-Identifier: Apache-2.0
"""A table's pair of files, whole, missing, odd, or changing while they are read."""

import fcntl
import os
import signal
import threading
import time

import numpy as np
import tensorflow as tf

from tests.conformance.engines import load_ops
from tests.conformance.scripts import NotPossibleHere

ops = load_ops()


class FileFaults:
    """What TableOps does with files; names are those of files in its folder."""

    def dump(self, name="file"):
        """Writes the pair, and returns what is in it."""
        self._run(lambda: self._dump_op(name))
        return self.files(name)

    def restore(self, name="file", key_dtype=None):
        self._run(lambda: self._restore_op(name, key_dtype))

    def write_files(self, keys, rows, name="file", key_dtype=None):
        """As another program writes them."""
        (self.folder / f"{name}.dump").unlink(missing_ok=True)
        keys = np.array(keys, key_dtype or self.spec.key_dtype)
        self._path(name, "keys").write_bytes(keys.tobytes())
        self._path(name, "values").write_bytes(np.array(rows, np.float32).tobytes())

    def files(self, name="file"):
        """The bytes of the keys and the rows."""
        return [
            np.fromfile(self._path(name, part), np.uint8) if self._path(name, part).is_file()
            else np.zeros(0, np.uint8)
            for part in ("keys", "values")
        ]  # fmt: skip

    def put_folder(self, part, name="file"):
        """A folder in the place of one of the files."""
        self._path(name, part).unlink(missing_ok=True)
        self._path(name, part).mkdir()

    def remove(self, part, name="file"):
        self._path(name, part).unlink()

    def restore_a_shrinking_file(self, keys, rows, num_rows_left, name="file"):
        """The file of rows loses its end once its size is known, and before it is read."""
        self.write_files(keys, rows, name)
        path = self._path(name, "values")
        with open(path, "r+b") as file:
            # Whoever opens the file waits until this lease is given up.
            signal.signal(signal.SIGIO, signal.SIG_IGN)
            try:
                fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            except OSError as error:
                raise NotPossibleHere(f"no leases on files in {self.folder}: {error}") from error
            shrink = threading.Thread(target=_shrink_when_opened, args=(
                file.fileno(), num_rows_left * 4 * self.spec.dim))  # fmt: skip
            shrink.start()
            try:
                self.restore(name)
            finally:
                shrink.join()

    def while_restoring(self, method, keys, rows, count):
        """Restores while another thread looks up the last `count` of the keys, which inserts them
        where they are absent; returns for how many the table has another row than `rows`."""
        self.write_files(keys, rows)
        load = {"restore": self._restore_op, "load": lambda: self._load_op(rows)}[method]()
        found = self._find_op(keys[-count:])
        done = threading.Event()

        def find():
            while not done.is_set():
                self.session.run(found)

        self.session.run(found)
        thread = threading.Thread(target=find)
        thread.start()
        try:
            self.session.run(load)
        finally:
            done.set()
            thread.join()
        exported = dict(zip(*self.export()))
        return sum(not np.array_equal(exported[key], row) for key, row in zip(keys, rows))

    def change(self, part, name="file"):
        """One bit of one of the files."""
        content = bytearray(self._path(name, part).read_bytes())
        content[len(content) // 2] ^= 1
        self._path(name, part).write_bytes(content)

    def _dump_op(self, name):
        steps = ops.sok_hold_checkpoint_barrier([], most_seconds=60.0)
        dump = ops.sok_begin_dump(steps)
        written = ops.sok_dump_table(self.handle, dump, str(self.folder), [], **self._pair(name))
        with tf.control_dependencies([written]):
            return ops.sok_commit_dump(dump, [])

    def _restore_op(self, name="file", key_dtype=None):
        return ops.sok_restore_table(
            self.handle, str(self.folder), [], **self._pair(name, key_dtype)
        )

    def _load_op(self, rows):
        return ops.sok_load_table(self.handle, np.arange(len(rows)), np.array(rows, np.float32), [])

    def _find_op(self, keys):
        return ops.sok_find_rows(
            [self.handle], [np.array(keys, np.int64)], [], insert=True, keys_are_distinct=True
        )

    def _pair(self, name, key_dtype=None):
        return {"format": "pair", "table_name": name, "Tkey": self._key_type(key_dtype)}

    def _path(self, name, part):
        return self.folder / f"{name}_{part}.file"

    def _key_type(self, key_dtype=None):
        return tf.dtypes.as_dtype(key_dtype or self.spec.key_dtype)


def _shrink_when_opened(file, num_bytes):
    deadline = time.monotonic() + 30
    while fcntl.fcntl(file, fcntl.F_GETLEASE) == fcntl.F_WRLCK and time.monotonic() < deadline:
        time.sleep(0.001)
    os.ftruncate(file, num_bytes)
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
