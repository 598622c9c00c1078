# SPDX-License-Identifier: Apache-2.0
"""The program of forks.py: imports TensorFlow and this package, runs nothing, and forks itself for
each program.

A fork is an ordinary process from then on. It runs its program as `__main__`, and ends as any
Python does: with atexit functions, destructors and an exit code.

Argument: the file descriptor of the connection to forks.py.
"""

import atexit
import ctypes
import gc
import importlib.util
import os
import signal
import sys
import threading
import time
import types
from multiprocessing.connection import Connection, wait

import numpy as np
import tensorflow as tf

from tests.support import gpu_kernels


def import_what_programs_import():
    """Saves each program half a second. One that asks for another op library imports it itself."""
    if gpu_kernels.LIBRARY not in os.environ:
        import sok_compat

        assert sok_compat.Init  # the names come with the first one
    if importlib.util.find_spec("horovod"):
        convert_functions_of(importlib.import_module("horovod.tensorflow"))


def convert_functions_of(horovod):
    """Converts the functions of Horovod that a tf.function calls, as it does, which takes seconds;
    AutoGraph keeps what is converted."""
    from tensorflow.python.autograph.core.converter import ConversionOptions, ProgramContext
    from tensorflow.python.autograph.impl import api

    names = [f"{kind}allreduce{what}" for kind in ("", "grouped_") for what in ("", "_cond")]
    called = [getattr(horovod, "_" * name.endswith("_cond") + name) for name in names]
    make_reducer = horovod._make_cached_allreduce_grads_fn
    reducer = make_reducer("", "", "", None, False, horovod.Average, 1.0, 0, None).python_function
    called += [horovod._DistributedGradientTape.gradient, horovod.broadcast_variables, reducer]
    for is_function, functions in {False: called, True: [reducer]}.items():
        options = ConversionOptions(
            recursive=True, user_requested=is_function, optional_features=None
        )
        for function in functions:
            api._convert_actual(function, ProgramContext(options))


def serve(client):
    """Forks for each program that comes. Returns it in the fork, and None when the client is gone.

    Sends the process id at the start, and (process id, exit code, time) at the end.
    """
    running = {}  # {file descriptor that can be read when the process has ended: its id}
    try:
        while True:
            for ready in wait([client, *running]):
                if ready is client:
                    program = client.recv()
                    at_end, write_end = os.pipe()  # the fork never closes `write_end`: its end does
                    pid = os.fork()
                    if not pid:
                        client.close()
                        for descriptor in (at_end, *running):
                            os.close(descriptor)
                        return program
                    os.close(write_end)
                    running[at_end] = pid
                    client.send(pid)
                else:
                    os.close(ready)
                    pid, status = os.waitpid(running.pop(ready), 0)
                    client.send((pid, os.waitstatus_to_exitcode(status), time.time()))
    except (EOFError, ConnectionError):
        for pid in running.values():
            os.kill(pid, signal.SIGKILL)
        return None


def become(program):
    """Runs a program of forks.py in this fork."""
    os.setsid()
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for number, (path, flags) in enumerate(
        [(os.devnull, os.O_RDONLY), (program["output"], append), (program["errors"], append)]
    ):
        descriptor = os.open(path, flags, 0o666)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(program["environment"])
    np.random.seed()  # Python's own numbers differ in forks, NumPy's do not
    sys.argv[:] = ["-c", *program["arguments"]]
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    exec(compile(program["code"], "<string>", "exec"), main.__dict__)


def end():
    """Ends a fork as Python does, but lets the system take back the memory of imported modules:
    Python does that object by object, for a fifth of a second."""
    threading._shutdown()
    atexit._run_exitfuncs()
    vars(sys.modules["__main__"]).clear()
    gc.collect()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    ctypes.CDLL(None).exit(0)  # destructors of C++


if __name__ == "__main__":
    import_what_programs_import()
    threads = os.listdir("/proc/self/task")
    if len(threads) != 1:  # a fork has the one that forks; what the others hold, it holds for ever
        sys.exit(f"TensorFlow {tf.__version__} has {len(threads)} threads at once: cannot fork it")
    gc.collect()
    gc.freeze()  # forks need not look through what was imported, at their end above all
    asked_for = serve(Connection(int(sys.argv[1])))
    if asked_for:
        become(asked_for)
        end()
