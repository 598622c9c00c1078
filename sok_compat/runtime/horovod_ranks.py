# SPDX-License-Identifier: Apache-2.0
"""Horovod's ranks and the collectives under exchanges; horovod_helpers.py has the rest of it."""

import importlib.util
import os
import sys

import numpy as np
import tensorflow as tf

from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tickets import named_reduction

tf1 = tf.compat.v1


# How launchers tell a process the number of ranks: horovodrun, mpirun.
_SIZE_VARIABLES = ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE")


def active_horovod(user="tables are made"):
    """horovod.tensorflow, if the script imported and initialized it; else None.

    Args:
      user: what Horovod has to be ready for, for messages.

    Raises:
      RuntimeError: the script was launched as one of several ranks, but its Horovod is not ready.
    """
    horovod = sys.modules.get("horovod.tensorflow")
    if hasattr(horovod, "is_initialized") and horovod.is_initialized():
        return horovod
    if "horovod" in sys.modules and launched_size() > 1:
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


def launched_size():
    """As how many ranks this process was launched, as far as launchers tell; at least 1."""
    sizes = [os.environ.get(variable, "") for variable in _SIZE_VARIABLES]
    return max(int(size) if size.isdecimal() else 1 for size in sizes)


def start_horovod(user):
    """horovod.tensorflow, imported and initialized; None: it is not installed, and there is one
    process.

    Args:
      user: what needs it, for messages.

    Raises:
      ImportError: it cannot be imported or initialized.
    """
    if launched_size() == 1 and importlib.util.find_spec("horovod") is None:
        return None
    try:
        horovod = importlib.import_module("horovod.tensorflow")
        if not horovod.is_initialized():  # each init() adds a shutdown() at the end of the process
            horovod.init()
    except Exception as error:  # each part of Horovod fails in its own way
        raise ImportError(
            f"{user} needs Horovod, and it failed: {type(error).__name__}: {error}. "
            "python -m sok_compat.doctor looks at it; to train without, in one process, leave "
            f"{user} out"
        ) from error
    return horovod


NCCL_VARIABLE = "SOK_EXCHANGE_BY_NCCL"


def exchange_device(horovod):
    """The device that bytes are exchanged from: "CPU:0", or "GPU:0", by NCCL, where NCCL_VARIABLE
    is 1.

    Raises:
      ValueError: the variable is neither 0 nor 1.
      RuntimeError: this Horovod has no NCCL, or the process does not see exactly one GPU.
    """
    asked = os.environ.get(NCCL_VARIABLE, "0")
    if asked not in ("0", "1"):
        raise ValueError(f"{NCCL_VARIABLE} must be 0 or 1, got {asked!r}")
    if asked == "0":
        return "CPU:0"
    if not horovod.nccl_built():
        raise RuntimeError(
            f"{NCCL_VARIABLE}=1, but this Horovod was built without NCCL: build it with "
            f"HOROVOD_GPU_OPERATIONS=NCCL, or unset {NCCL_VARIABLE}"
        )
    gpus = tf.config.get_visible_devices("GPU")
    if len(gpus) != 1:  # sessions of a process cannot each have an order of its own
        raise RuntimeError(
            f"{NCCL_VARIABLE}=1 needs a process that sees exactly one GPU, this one sees "
            f"{len(gpus)}: set CUDA_VISIBLE_DEVICES for each rank before TensorFlow is imported, "
            "or tf.config.set_visible_devices before tables are made"
        )
    return "GPU:0"


class Collectives:
    """Horovod's collectives on bytes, in a graph and session of their own.

    One thread calls them, so that ranks meet in the same order whatever their training graphs do.

    Attributes:
      rank, size: Horovod's.
      is_on_host: whether bytes travel from memory of the host.
    """

    name = "Horovod"

    def __init__(self, horovod):
        self.rank = horovod.rank()
        self.size = horovod.size()
        self._device = exchange_device(horovod)
        self.is_on_host = self._device == "CPU:0"
        self._horovod = horovod
        with tf.Graph().as_default() as graph:
            self._bytes = tf1.placeholder(tf.uint8, [None])
            self._splits = tf1.placeholder(tf.int32, [self.size])
            self._exchanged = self._exchange(self._bytes, self._splits)
            self._rounds = tf.while_loop(
                lambda go_on: go_on, self._exchange_part, [tf.constant(True)], parallel_iterations=1
            )
        # Threads of its own: a training graph that fills TensorFlow's pool must not stop the ranks
        # from talking.
        config = tf1.ConfigProto(intra_op_parallelism_threads=1)
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        if self.is_on_host:
            config.device_count["GPU"] = 0
        else:  # what it takes of the GPU, tables cannot have
            config.gpu_options.allow_growth = True
            config.allow_soft_placement = True
        config.session_inter_op_thread_pool.add(num_threads=2)
        self._session = tf1.Session(graph=graph, config=config)

    def alltoall(self, data, send_bytes):
        """(bytes received uint8 [n], their sizes by source rank int32 [size])."""
        return self._session.run(
            self._exchanged, {self._bytes: data, self._splits: send_bytes.astype(np.int32)}
        )

    def run_rounds(self):
        """Carries what this rank's lookups have submitted, until the exchanges end."""
        self._session.run(self._rounds)

    def _exchange_part(self, go_on):
        with tf.device("CPU:0"):
            data, send_bytes = ops.sok_next_part(go_on)
        received, received_bytes = self._exchange(data, send_bytes)
        with tf.device("CPU:0"):
            return ops.sok_take_part(received, received_bytes)

    def _exchange(self, data, splits):
        with tf.device(self._device):
            return self._horovod.alltoall(
                data, splits, name="sok_compat.exchange", ignore_name_scope=True
            )


def sum_over_ranks(tensor):
    """The sum of what all ranks have; the tensor itself where one process trains alone."""
    horovod = active_horovod()
    if horovod is None or horovod.size() == 1:
        return tensor
    return horovod.allreduce(tensor, op=horovod.Sum, **named_reduction("sum"))


def is_broadcast(tensor):
    """Whether a tensor is what hvd.broadcast gives."""
    return tf.is_symbolic_tensor(tensor) and tensor.op.type == "HorovodBroadcast"
