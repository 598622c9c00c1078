# SPDX-License-Identifier: Apache-2.0
"""The fuzzer's loop: each case is written down before it is checked."""

import logging
import time

import hypothesis
import tensorflow as tf

from tests.fuzz import cases, check, singles

_CASES_BETWEEN_LINES = 500


def run(num_cases, seed, log):
    """Checks every wrong value once, then random cases; raises, with the case, where one is wrong.

    Args:
      num_cases: how many random ones.
      seed: of the cases; None: those that hypothesis always makes.
      log: pathlib.Path; holds the current case.
    """
    tf.get_logger().setLevel(logging.ERROR)
    start, num_checked = time.monotonic(), 0

    def one(case):
        nonlocal num_checked
        num_checked += 1
        log.write_text(f"{case}\n")
        check.check(case)
        if num_checked % _CASES_BETWEEN_LINES == 0:
            print(f"{num_checked:,} cases, {time.monotonic() - start:.0f} s", flush=True)

    for case in singles.cases():
        one(case)
    wrapped = hypothesis.given(cases.cases())(one)
    if seed is not None:
        wrapped = hypothesis.seed(seed)(wrapped)
    hypothesis.settings(
        max_examples=num_cases,
        database=None,
        deadline=None,
        derandomize=seed is None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )(wrapped)()
    found = ", ".join(f"{count:,} x {name}" for name, count in sorted(check.outcomes.items()))
    print(f"{num_checked:,} cases in {time.monotonic() - start:.0f} s: {found}")
