# SPDX-License-Identifier: Apache-2.0
"""Horovod's ranks, and its collectives below exchanges; helpers.py adapts its helpers."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

import numpy as np
import tensorflow as tf

from sok_compat.ranks.connection import Connection
from sok_compat.ranks.horovod.attendance import Attendance
from sok_compat.ranks.launched import launched_size
from sok_compat.runtime.op_library import ops

tf1 = tf.compat.v1

HOROVOD = "horovod"  # of this tool of communication, where an API lets scripts choose


def is_imported() -> bool:
    """Whether the script has imported Horovod, and not its stand-in."""
    module = sys.modules.get("horovod")
    return module is not None and not getattr(module, "is_stand_in", False)


def active_horovod(user: str = "tables are made") -> Any:
    """horovod.tensorflow, if the script imported and initialized it; else None.

    Raises:
      RuntimeError: the script was launched as one of several ranks, but its Horovod is not ready.
    """
    horovod: Any = sys.modules.get("horovod.tensorflow") if is_imported() else None
    if hasattr(horovod, "is_initialized") and horovod.is_initialized():
        return horovod
    if is_imported() and launched_size() > 1:
        raise RuntimeError(
            f"this process was launched as one of {launched_size()} ranks, but "
            + (
                f"Horovod is not initialized: call hvd.init() before {user}"
                if hasattr(horovod, "is_initialized")
                else "horovod.tensorflow is not imported, or its import failed: a Horovod that was "
                "built for another TensorFlow does that. Build it again: pip install "
                "--no-cache-dir --force-reinstall --no-build-isolation horovod"
            )
        )
    return None


def horovod_module(path: str) -> ModuleType:
    """Imports a module of Horovod, such as "tensorflow.keras"."""
    return importlib.import_module(f"horovod.{path}")


def start_horovod(user: str) -> Any:
    """Imports and initializes horovod.tensorflow; None if it is not installed and there is only one
    process.

    Raises:
      ImportError: Horovod cannot be imported or initialized.
    """
    if launched_size() == 1 and not _is_installed():
        return None
    try:
        horovod = importlib.import_module("horovod.tensorflow")
        if not horovod.is_initialized():  # each init() adds a shutdown() at the end of the process
            horovod.init()
    except Exception as error:  # each part of Horovod fails in its own way
        raise ImportError(
            f"{user} needs Horovod, and it failed: {type(error).__name__}: {error}. "
            "python -m sok_compat.doctor checks it; to train in one process without Horovod, "
            f"leave {user} out"
        ) from error
    return horovod


def _is_installed():
    """Whether Horovod is; the stand-in comes from no file."""
    spec = importlib.util.find_spec("horovod")
    return spec is not None and spec.origin is not None


class Collectives(Connection):
    """Horovod's collectives on bytes, in their own graph and session.

    One thread calls them, in the same order on all ranks, whatever the training graphs do.
    Where nothing else carries messages, exchanges make rounds.
    """

    name = "Horovod"
    who_is_absent = " (rank 0's log names it, where Horovod says 'Missing ranks')"

    def __init__(self, horovod: Any) -> None:
        self.rank = horovod.rank()
        self.size = horovod.size()
        self.attendance = Attendance(self.size)
        self.survivors = Attendance(self.size, "sok_compat.survivors")
        self._horovod = horovod
        with tf.Graph().as_default() as graph, tf.device("CPU:0"):
            self._bytes = tf1.placeholder(tf.uint8, [None])
            self._splits = tf1.placeholder(tf.int32, [self.size])
            self._exchanged = self._exchange(self._bytes, self._splits)
            self._rounds = tf.while_loop(
                lambda go_on: go_on, self._exchange_part, [tf.constant(True)], parallel_iterations=1
            )
        # The session has its own threads: a training graph that fills TensorFlow's pool must not
        # stop ranks from communicating.
        config = tf1.ConfigProto(intra_op_parallelism_threads=1, device_count={"GPU": 0})
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.session_inter_op_thread_pool.add(num_threads=2)
        self._session = tf1.Session(graph=graph, config=config)

    def alltoall(self, data: np.ndarray, send_bytes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Exchanges `data` uint8 [n], in parts of `send_bytes` [size] for each rank.

        Returns:
          (received bytes uint8 [m], their sizes by source rank int32 [size]).
        """
        return self._session.run(
            self._exchanged, {self._bytes: data, self._splits: send_bytes.astype(np.int32)}
        )

    def gather(self, line: str) -> list[str]:
        data = np.tile(np.frombuffer(f"{line}\n".encode(), np.uint8), self.size)
        joined, _ = self.alltoall(data, np.full([self.size], len(line) + 1))
        return joined.tobytes().decode().splitlines()

    def run(self) -> None:
        """Runs all-to-alls with the data of this rank's lookups, until the exchanges end."""
        self._session.run(self._rounds)

    def _exchange_part(self, go_on):
        data, send_bytes = ops.sok_next_part(go_on)
        return ops.sok_take_part(*self._exchange(data, send_bytes))

    def _exchange(self, data, splits):
        return self._horovod.alltoall(
            data, splits, name="sok_compat.exchange", ignore_name_scope=True
        )


def is_broadcast(tensor: Any) -> bool:
    """Whether a tensor is the output of hvd.broadcast."""
    return tf.is_symbolic_tensor(tensor) and tensor.op.type == "HorovodBroadcast"
