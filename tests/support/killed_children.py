# SPDX-License-Identifier: Apache-2.0
"""Forks that work until they are killed, at random moments."""

import os
import signal
import time


def run_and_kill(work, random_numbers, most_seconds):
    """Forks a process that calls work(ready), and kills it.

    Args:
      work: does not end; writes a byte to the file descriptor `ready` when it has begun.
      random_numbers: a random.Random.
      most_seconds: from that byte to its end.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        work(writing)
    os.close(writing)
    os.read(reading, 1)
    time.sleep(random_numbers.uniform(0, most_seconds))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reading)
