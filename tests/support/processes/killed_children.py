# SPDX-License-Identifier: Apache-2.0
"""Forks and ranks that work until they are killed, at random moments."""

import os
import signal
import time
from pathlib import Path


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


def may_be_killed(folder, rank):
    """Says in the folder that this rank has begun what is to be broken off, and returns."""
    place = _place(folder, rank)
    place.with_suffix(".partial").write_text(str(os.getpid()))
    place.with_suffix(".partial").rename(place)


def kill_rank_in(folder, victim, num_ranks, seconds):
    """Kills one rank, so long after all have said that they have begun."""
    while not all(_place(folder, rank).exists() for rank in range(num_ranks)):
        time.sleep(0.01)
    time.sleep(seconds)
    os.kill(int(_place(folder, victim).read_text()), signal.SIGKILL)


def _place(folder, rank):
    return Path(folder, f"pid of {rank}")
