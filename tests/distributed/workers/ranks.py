# SPDX-License-Identifier: Apache-2.0
"""What all workers share: the ranks, with or without Horovod, and the way to report."""

import contextlib
import logging
import os
import pickle
import signal
import socket
import time
from pathlib import Path

import tensorflow as tf

from sok_compat.ranks.launched import mpi_rank, mpi_size
from tests.support.gpu_kernels import use_what_is_asked_for

EAGER_VARIABLE = "SOK_TEST_EAGER"  # in the environment: the worker runs in eager mode
HOSTS_VARIABLE = "SOK_TEST_HOSTS"  # as how many hosts this one counts; ranks are on them in turn
if EAGER_VARIABLE not in os.environ:
    tf.compat.v1.disable_eager_execution()
use_what_is_asked_for()

# One process does not even import Horovod, nor do ranks that mpiexec starts.
hvd = None
RANK, SIZE = mpi_rank(), mpi_size()
if "HOROVOD_RANK" in os.environ:
    import horovod.tensorflow as hvd

    hvd.init()
    RANK, SIZE = hvd.rank(), hvd.size()
if SIZE > 1 and HOSTS_VARIABLE in os.environ:
    _HOST = f"host{RANK % int(os.environ[HOSTS_VARIABLE])}"
    socket.gethostname = lambda: _HOST
    logging.basicConfig()
    logging.getLogger("sok_compat.ranks.exchange").setLevel(logging.INFO)


def report(value):
    """Hands `value` to the test; a later one replaces it."""
    path = Path(os.environ["SOK_TEST_FOLDER"], f"{RANK}.report")
    partial = path.with_suffix(".partial")
    partial.write_bytes(pickle.dumps(value))
    partial.rename(path)


def wait_for_all_ranks(place="ready"):
    """Returns when all ranks have come here: imports take longer than a short stall timeout."""
    folder = Path(os.environ["SOK_TEST_FOLDER"])
    (folder / f"{RANK}.{place}").write_text(str(os.getpid()))
    while len(list(folder.glob(f"*.{place}"))) < SIZE:
        time.sleep(0.01)


def kill_rank(rank):
    """Ends another rank that has come to wait_for_all_ranks, also one that is stopped."""
    pid = Path(os.environ["SOK_TEST_FOLDER"], f"{rank}.ready")
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(pid.read_text()), signal.SIGKILL)


def session_config(threads=2, rewrites=True):
    """Few threads, as several ranks share the machine; rewrites=False: graphs start faster."""
    config = tf.compat.v1.ConfigProto(
        inter_op_parallelism_threads=threads, intra_op_parallelism_threads=1
    )
    config.graph_options.rewrite_options.disable_meta_optimizer = not rewrites
    return config
