# SPDX-License-Identifier: Apache-2.0
"""A trainer, and a server that follows it. `python -m examples.online --help`"""

import argparse
import collections
import contextlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

from examples import console

if __name__ == "__main__":
    console.quiet_tensorflow()

import numpy as np

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
        process.send_signal(signal.SIGINT)
        try:
            process.wait(ENDS_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def serve(options, stop):
    """Prints a line a second; returns the exit status."""
    began, meter, ends = time.time(), Meter(), threading.Event()
    with contextlib.ExitStack() as stack:
        folder = options.folder or stack.enter_context(tempfile.TemporaryDirectory())
        process = stack.enter_context(trainer(folder, began, options))
        live, fixed = (stack.enter_context(Follower(build, folder)) for _ in range(2))
        while not stop.is_set and process.poll() is None and fixed.version() is None:
            time.sleep(0.1)
        if fixed.version() is None:
            return console.EXIT_FAILED
        time.sleep(options.fixed_after)
        live.wait()
        fixed.rollback(fixed.version())  # stays there
        streams = [Stream(began, options.turn_seconds, 2 + n) for n in range(options.threads)]
        threads = [
            threading.Thread(target=request, args=[live, fixed, stream, meter, ends])
            for stream in streams
        ]
        stack.callback(lambda: [thread.join() for thread in threads])
        stack.callback(ends.set)
        for thread in threads:
            thread.start()
        print(f"{HEADING} AUC of {fixed.version()}", flush=True)
        until, before = time.monotonic() + options.seconds, 0
        while not stop.is_set and process.poll() is None and time.monotonic() < until:
            time.sleep(1)
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
    return console.EXIT_OK


def main(arguments, stop):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", help="of the checkpoints; by default one that is removed")
    parser.add_argument("--turn-seconds", type=float, default=60.0, help="see stream.py")
    parser.add_argument("--save-seconds", type=float, default=2.0, help="between two increments")
    parser.add_argument("--threads", type=int, default=4, help="that ask the server")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="until the end")
    parser.add_argument(
        "--fixed-after", type=float, default=5.0, help="seconds until one model stays as it is"
    )
    return serve(parser.parse_args(arguments), stop)


if __name__ == "__main__":
    sys.exit(console.run(main, sys.argv[1:]))
