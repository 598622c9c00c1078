# SPDX-License-Identifier: Apache-2.0
"""Memory that is refused to one rank fails the step on both, and the next step is right."""

import pytest

from tests.distributed.launch import reports, run_ranks


@pytest.mark.thorough
def test_refused_memory_fails_the_step():
    """The worker checks the steps that follow. What is refused depends on what malloc has kept."""
    by_rank = reports(run_ranks("failures.refused_memory", 2, timeout=300))
    failed = 0
    for refused, *case in by_rank[0]:
        own, other = (by_rank[rank][(refused, *case)] for rank in (refused, 1 - refused))
        if own is None:
            assert other is None
            continue
        kind, message = own
        assert kind == "ResourceExhaustedError"
        assert "memory" in message or "OOM" in message, message
        if other is not None:  # else its last exchange had come
            kind, message = other
            assert kind == "UnknownError"
            assert f"rank {refused} failed in this step" in message, message
            failed += 1
    assert failed >= 2, by_rank
