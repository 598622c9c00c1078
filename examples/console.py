# SPDX-License-Identifier: Apache-2.0
"""How a command line program begins and ends: quiet TensorFlow, Ctrl-C, exit statuses.

Imports no TensorFlow itself, so that Ctrl-C is in hand before the seconds that its import takes.
"""

import logging
import os
import signal
import sys

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT


class StopRequest:
    """While entered, the first Ctrl-C sets `is_set` for the program to see; a second one raises."""

    def __init__(self):
        self.is_set = False
        self._previous = None

    def __enter__(self):
        self._previous = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *exception):
        signal.signal(signal.SIGINT, self._previous)

    def _on_signal(self, number, frame):
        if self.is_set:
            raise KeyboardInterrupt
        self.is_set = True


def quiet_tensorflow():
    """Imports TensorFlow without its start-up messages; the environment can ask for them."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    tf.get_logger().setLevel(logging.ERROR)  # deprecations of the TF1 API, which this is about


def run(program, arguments):
    """Runs `program(arguments, stop_request)` and returns its exit status, 130 after Ctrl-C."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    try:
        with StopRequest() as stop:
            status = program(arguments, stop)
            return EXIT_INTERRUPTED if stop.is_set else status
    except KeyboardInterrupt:  # the second Ctrl-C
        return EXIT_INTERRUPTED


def tell(text):
    """Says what goes on, beside what the program prints."""
    print(text, file=sys.stderr, flush=True)


def fail(error):
    """Says what was wrong with the input; returns the exit status."""
    sys.stdout.flush()
    print(f"error: {error}", file=sys.stderr)
    return EXIT_BAD_INPUT
