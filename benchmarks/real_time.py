# SPDX-License-Identifier: Apache-2.0
"""Steps that other programs of the machine do not disturb."""

import contextlib
import os


@contextlib.contextmanager
def real_time(is_wanted):
    """A context in which the threads that this process has come before those of other programs.
    Needs root; short, since meanwhile nothing else runs on the processors that they keep busy.

    Args:
      is_wanted: False: a context that changes nothing.
    """
    if is_wanted:
        _set_policy(os.SCHED_RR, 1)
    try:
        yield
    finally:
        if is_wanted:
            _set_policy(os.SCHED_OTHER, 0)


def _set_policy(policy, priority):
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            os.sched_setscheduler(int(thread), policy, os.sched_param(priority))
