# SPDX-License-Identifier: Apache-2.0
"""Messages that are larger than an all-to-all may be go in several."""

import threading

import numpy as np
import pytest

from sok_compat.runtime.exchange import exchange_in_parts

NUM_RANKS = 3


class AllToAll:
    """Between threads, one for each rank."""

    def __init__(self, most_bytes):
        self._most_bytes = most_bytes
        self._barrier = threading.Barrier(NUM_RANKS)
        self._sent = [None] * NUM_RANKS
        self.num_calls = [0] * NUM_RANKS

    def of_rank(self, rank):
        def alltoall(data, sizes):
            assert len(data) == sum(sizes) <= self._most_bytes
            self.num_calls[rank] += 1
            self._sent[rank] = np.split(data, np.cumsum(sizes)[:-1])
            self._barrier.wait(10)
            received = [theirs[rank] for theirs in self._sent]
            self._barrier.wait(10)
            return np.concatenate(received), np.array([len(part) for part in received], np.int32)

        return alltoall


def message(source, target, size):
    """Bytes that tell all messages apart, without the int64 at their begin."""
    return np.random.default_rng([source, target]).integers(0, 256, size, np.uint8)


@pytest.mark.parametrize("most_bytes", [30, 60, 1000, 10**6])
@pytest.mark.parametrize("sizes", [[0, 0, 0], [5, 0, 100], [1000, 1, 333], [8, 9, 10]])
def test_all_arrive_whole(most_bytes, sizes):
    all_to_all = AllToAll(most_bytes)
    received = [None] * NUM_RANKS

    def run(rank):
        bodies = [message(rank, to, sizes[(rank + to) % NUM_RANKS]) for to in range(NUM_RANKS)]
        longest = np.array([8 + max(map(len, bodies))], np.int64).view(np.uint8)
        data = np.concatenate([part for body in bodies for part in (longest, body)])
        send_bytes = np.array([8 + len(body) for body in bodies])
        received[rank] = exchange_in_parts(all_to_all.of_rank(rank), data, send_bytes, most_bytes)

    threads = [threading.Thread(target=run, args=[rank]) for rank in range(NUM_RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for rank, (data, received_bytes) in enumerate(received):
        parts = np.split(data, np.cumsum(received_bytes)[:-1])
        for source, part in enumerate(parts):
            expected = message(source, rank, sizes[(source + rank) % NUM_RANKS])
            np.testing.assert_array_equal(part[8:], expected)
    num_parts = -(-(8 + max(sizes)) // (most_bytes // NUM_RANKS))
    assert all_to_all.num_calls == [num_parts] * NUM_RANKS
