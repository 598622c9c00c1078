# SPDX-License-Identifier: Apache-2.0
"""Memory that ranks share is taken by all of them or by none; tests/distributed uses it."""

import pytest

from sok_compat.ranks.shared_memory import SharedMemory
from sok_compat.runtime.op_library import c_library

ANOTHER_MEMORY = "1 0 12345"  # no process has that one


@pytest.fixture
def memory():
    """Of rank 0 of two."""
    return SharedMemory(c_library, rank=0, ranks=[0, 1], ring_bytes=1 << 20)


def connect(memory, *others, is_wanted=True):
    """(whether rank 0 takes it, the lines it gave); others: for each gather, rank 1's line."""
    given = []

    def gather(line):
        given.append(line)
        return [line, others[len(given) - 1]]

    return memory.connect(is_wanted, gather), given


def test_the_other_rank_does_not_want_it(memory):
    is_connected, given = connect(memory, "-", "0")
    assert not is_connected and len(given[0].split()) == 3 and given[1] == "0"


def test_this_rank_does_not_want_it(memory):
    outcome = connect(memory, ANOTHER_MEMORY, "0", is_wanted=False)
    assert outcome == (False, ["-", "0"])


def test_memory_that_cannot_be_mapped(memory):
    """As where the processes are in containers of their own: the other one is told."""
    is_connected, given = connect(memory, ANOTHER_MEMORY, "1")
    assert not is_connected and given[1] == "0"


def test_the_other_rank_cannot_map_it(memory):
    own = []

    def gather(line):
        own.append(line)
        return [line, own[0]] if len(own) == 1 else [line, "0"]

    assert not memory.connect(True, gather)
    assert own[1] == "1"
