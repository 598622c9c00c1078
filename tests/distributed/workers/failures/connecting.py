# SPDX-License-Identifier: Apache-2.0
"""The last rank comes to sok.Init as the argument says; then it holds Python's lock for long."""

import atexit
import ctypes
import os
import signal
import sys
import time

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

import sok_compat as sok
from sok_compat.runtime.op_library import c_library
from sok_compat.runtime.settings import STALL_TIMEOUT, WIRE_DTYPE
from tests.distributed.workers.ranks import (
    RANK,
    SIZE,
    kill_rank,
    report,
    session_config,
    wait_for_all_ranks,
)

IS_LAST = RANK == SIZE - 1
STALL_SECONDS = STALL_TIMEOUT.value()


def seen_of_init():
    began = time.time()
    try:
        sok.Init(global_batch_size=SIZE)
        error = None
    except RuntimeError as raised:
        error = str(raised)
    return {"error": error, "seconds": time.time() - began}


def hold_the_lock(seconds):
    """As a long call of a library that does not let go of Python's lock."""
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


def train():
    """What steps give while the last rank holds the lock: between them, then when one has begun."""
    status = sok.Init(global_batch_size=SIZE, seed=1)
    hvd.init()  # once more, as scripts do
    layer = sok.All2AllDenseEmbedding(100, 4, 1, 1)
    keys = tf.compat.v1.placeholder(tf.int64, [None])
    rows = layer(keys)
    seen = {"most threads": c_library.sok_exchange_most_threads()}
    with tf.compat.v1.Session(config=session_config()) as session:
        session.run([status, tf.compat.v1.global_variables_initializer()])

        def step(count):
            return len(session.run(rows, {keys: np.arange(count)}))

        seen["rows of a late one"] = step(2)
        (hold_the_lock if IS_LAST else time.sleep)(STALL_SECONDS + 3)  # nobody waits in a step
        seen["rows after a long call"] = step(3)
        if IS_LAST:
            hold_the_lock(STALL_SECONDS + 3)
        try:
            seen["in a step"] = step(1)
        except tf.errors.OpError as error:
            seen["in a step"] = error.message
        if not IS_LAST:
            time.sleep(3)
        seen["rows of the next step"] = step(4)
    return seen


def exit_code_of_a_forked_child():
    """Of one that ends as sok_compat does; as Horovod does, would harm its parent."""
    child = os.fork()
    if child == 0:
        atexit.unregister(hvd.shutdown)
        is_alone = sok.communication_stats().rounds == 0
        atexit._run_exitfuncs()
        os._exit(3 if is_alone else 1)
    until = time.time() + 30
    while time.time() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    return None


if __name__ == "__main__":
    wait_for_all_ranks()
    mode = sys.argv[1]
    if mode == "late":
        if IS_LAST:
            time.sleep(STALL_SECONDS / 2)
        report({**train(), "forked child": exit_code_of_a_forked_child()})
    elif mode == "unlike":
        os.environ[WIRE_DTYPE.name] = ("float16", "bfloat16")[IS_LAST]
        report(seen_of_init())
    elif not IS_LAST:
        report(seen_of_init())
        kill_rank(SIZE - 1)
        os._exit(0)  # no goodbye to a rank that is not there
    elif mode == "gone":
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        time.sleep(1000)
