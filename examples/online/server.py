# SPDX-License-Identifier: Apache-2.0
"""A server that follows the trainer that it starts, beside one that stays at an early version."""

import collections
import contextlib
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

from examples import console
from examples.dlrm.auc import exact_auc
from examples.online.model import build
from examples.online.stream import Stream
from sok_compat.serving import Follower

REQUEST, LAST = 64, 200  # samples of a request; requests that count for the AUC
ENDS_WITHIN_SECONDS = 30
HEADING = "seconds  version       lag, s     keys  requests/s  AUC   "


class Meter:
    """Requests of several threads, and how well the last ones were answered."""

    def __init__(self):
        self._lock = threading.Lock()
        self._answers = collections.deque(maxlen=LAST)
        self.num_requests, self.num_keys = 0, 0

    def add(self, clicks, live, fixed):
        with self._lock:
            self._answers.append((clicks, live["chances"], fixed["chances"]))
            self.num_requests += 1
            self.num_keys = int(live["num_keys"])

    def aucs(self):
        """Of the model that follows, and of the one that does not."""
        with self._lock:
            answers = list(self._answers)
        clicks, live, fixed = (np.concatenate(each) for each in zip(*answers))
        return exact_auc(clicks, live), exact_auc(clicks, fixed)


def request(live, fixed, stream, meter, ends):
    """Asks both models for the clicks of now, until `ends` is set."""
    while not ends.is_set():
        items, clicks = stream.batch(REQUEST)
        meter.add(clicks, live.run({"items": items}), fixed.run({"items": items}))
        ends.wait(0.005)


@contextlib.contextmanager
def trainer(folder, began, options):
    """The process that trains, ended at the end."""
    command = [sys.executable, "-m", "examples.online.train", folder, f"--began={began}"]
    command += [f"--turn-seconds={options.turn_seconds}", f"--save-seconds={options.save_seconds}"]
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(ENDS_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def serve(options, stop):
    """Prints a line a second; returns the exit status."""
    began = time.time()
    with contextlib.ExitStack() as stack:
        folder = options.folder or stack.enter_context(tempfile.TemporaryDirectory())
        process = stack.enter_context(trainer(folder, began, options))
        live, fixed = (stack.enter_context(Follower(build, folder)) for _ in range(2))

        def waits_for(seconds, is_over=lambda: False):
            """Whether it may go on then."""
            until = time.monotonic() + seconds
            while time.monotonic() < until and not is_over():
                if stop.is_set or process.poll() is not None:
                    return False
                time.sleep(0.1)
            return True

        goes_on = waits_for(float("inf"), lambda: live.version() and fixed.version())
        if goes_on:
            console.tell(
                f"{live.version()} is served; in {options.fixed_after:g} s one model stays"
            )
        if goes_on and waits_for(options.fixed_after):
            fixed.rollback(fixed.version())  # stays there
            compare(live, fixed, began, options, waits_for)
        if process.poll() is not None and not stop.is_set:
            console.tell(f"the trainer has ended with status {process.returncode}")
            return console.EXIT_FAILED
    return console.EXIT_OK


def compare(live, fixed, began, options, waits_for):
    """Asks both models, and prints a line a second, until the end."""
    meter, ends = Meter(), threading.Event()
    streams = [Stream(began, options.turn_seconds, 2 + n) for n in range(options.threads)]
    threads = [
        threading.Thread(target=request, args=[live, fixed, stream, meter, ends])
        for stream in streams
    ]
    for thread in threads:
        thread.start()
    print(f"{HEADING} AUC of {fixed.version()}", flush=True)
    until, before = time.monotonic() + options.seconds, 0
    try:
        while time.monotonic() < until and waits_for(1):
            if meter.num_requests == 0:
                continue
            live_auc, fixed_auc = meter.aucs()
            print(
                f"{time.time() - began:7.0f}  {live.version():12}  {live.lag_seconds():6.2f}  "
                f"{meter.num_keys:7,}  {meter.num_requests - before:10,}  {live_auc:.3f}  "
                f"{fixed_auc:.3f}",
                flush=True,
            )
            before = meter.num_requests
    finally:
        ends.set()
        for thread in threads:
            thread.join()
