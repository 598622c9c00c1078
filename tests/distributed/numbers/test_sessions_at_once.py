# SPDX-License-Identifier: Apache-2.0
"""Threads that run steps of different lookups at the same time, in an order of each rank's own."""

from tests.distributed.launch import reports, run_ranks


def test_each_lookup_meets_its_own():
    for rank in reports(run_ranks("numbers.sessions", 2)):
        assert rank["two sessions"] == [[1.0], [2.0]]
        assert rank["two fetches"] == [[1.0], [1.0]]
