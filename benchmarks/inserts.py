# SPDX-License-Identifier: Apache-2.0
"""Tables that grow: new keys a second, memory, and speed when there are 100 million keys.

On a virtual machine, the first touch of memory that the host has not handed over yet can take
twenty times as long as a later one. Inserts are run once before they are measured.
"""

import contextlib
import dataclasses
import gc
import resource
import statistics

import numpy as np

from benchmarks.contenders import PEER_NAME, has_peer, make_ours, make_peer
from benchmarks.tables import Comparison
from benchmarks.timing import timed

NUM_NEW_KEYS = 5_000_000
INSERT_BAR = 5.0
ROUNDS = 3
INDEX_BYTES = 24  # allowed for a key beside its row
MEMORY_BAR = 1.3
FEW_KEYS, MANY_KEYS = 1_000_000, 100_000_000
MANY_KEYS_DIM = 4
MANY_KEYS_BYTES = 16 << 30  # of memory that has to be free
SLOWDOWN_BAR = 2.0
_ODD = np.uint64(0x9E3779B97F4A7C15)


def new_keys(begin, end, num_features):
    """int64 [n, num_features]: the keys numbered begin to end, all over the range of int64."""
    numbers = np.arange(begin, end - (end - begin) % num_features, dtype=np.uint64)
    return (numbers * _ODD).view(np.int64).reshape(-1, num_features)


def _bytes_in(path, field):
    """A field of a file of /proc, which has lines like `field:  number kB`."""
    with open(path) as status:
        fields = dict(line.split(":", 1) for line in status)
    return int(fields[field].split()[0]) << 10


def resident_bytes():
    """Of this process."""
    return _bytes_in("/proc/self/status", "VmRSS")


def available_bytes():
    """Of this machine."""
    return _bytes_in("/proc/meminfo", "MemAvailable")


def batches_of_new_keys(begin, end, workload):
    size = workload.batch_size * workload.num_features
    for first in range(begin, end, size):
        yield new_keys(first, min(first + size, end), workload.num_features)


def _insert_all(dim, workload, num_threads):
    """{contender: seconds} of inserting NUM_NEW_KEYS into empty tables, batch by batch in turn."""
    with contextlib.ExitStack() as stack:
        ours = make_ours(None, dim, NUM_NEW_KEYS, workload.num_features, num_threads)
        contenders = [stack.enter_context(ours)]
        if has_peer():
            contenders.append(
                stack.enter_context(make_peer(dim, workload.num_features, num_threads))
            )
        seconds = dict.fromkeys((contender.name for contender in contenders), 0.0)
        for keys in batches_of_new_keys(0, NUM_NEW_KEYS, workload):
            for contender in contenders:
                seconds[contender.name] += timed(contender.run, "insert", keys)
    return seconds


def compare(dim, workload, num_threads):
    """Comparison of inserting NUM_NEW_KEYS into empty tables: medians of ROUNDS after a first."""
    rounds = [_insert_all(dim, workload, num_threads) for _ in range(1 + ROUNDS)][1:]
    medians = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    what = f"insert {NUM_NEW_KEYS:,} keys, dim {dim}"
    return Comparison(what, medians, {PEER_NAME: INSERT_BAR})


def memory_ratio(dim, workload, num_threads):
    """Resident memory of NUM_NEW_KEYS keys with Adagrad, over rows, slots and INDEX_BYTES a key."""
    with make_ours("adagrad", dim, NUM_NEW_KEYS, workload.num_features, num_threads) as ours:
        ours.run("look_up", new_keys(0, workload.num_features * 4096, workload.num_features))
        gc.collect()
        before = resident_bytes()
        for keys in batches_of_new_keys(0, NUM_NEW_KEYS, workload):
            ours.run("insert", keys)
        return (resident_bytes() - before) / (NUM_NEW_KEYS * (2 * dim * 4 + INDEX_BYTES))


@dataclasses.dataclass(frozen=True)
class Rates:
    """Seconds in a table of num_keys."""

    num_keys: int
    insert: float  # of a new key, in a training step, over the second half of the keys
    kernel: float  # for a new key: CPU time of the kernel, of all threads
    look_up: float  # of a known key


def grow(workload, num_threads):
    """([Rates] with few and with many keys, resident bytes of the latter); trains with Adagrad."""
    before = resident_bytes()
    few = [_grow_to(FEW_KEYS, workload, num_threads)[0] for _ in range(1 + 2 * ROUNDS)][1:]
    medians = [statistics.median(getattr(one, what) for one in few) for what in _RATES]
    many, resident = _grow_to(MANY_KEYS, workload, num_threads)
    return [Rates(FEW_KEYS, *medians), many], resident - before


_RATES = ("insert", "kernel", "look_up")


def _grow_to(num_keys, workload, num_threads):
    """(Rates, resident bytes)."""
    random = np.random.default_rng(workload.seed)
    shape = (workload.batch_size, workload.num_features)
    half = num_keys // 2
    make = make_ours("adagrad", MANY_KEYS_DIM, num_keys, workload.num_features, num_threads)
    with make as ours:
        for keys in batches_of_new_keys(0, half, workload):
            ours.run("train", keys)
        kernel = _kernel_seconds()
        insert = sum(
            timed(ours.run, "train", keys) for keys in batches_of_new_keys(half, num_keys, workload)
        )
        kernel = _kernel_seconds() - kernel
        look_ups = []
        for _ in range(24):
            numbers = random.integers(0, half, shape, np.uint64)
            numbers += random.integers(0, 2, shape, np.uint64) * np.uint64(half)
            look_ups.append(timed(ours.run, "look_up", (numbers * _ODD).view(np.int64)))
        look_up = statistics.median(look_ups[8:]) / numbers.size
        rates = Rates(num_keys, insert / (num_keys - half), kernel / (num_keys - half), look_up)
        return rates, resident_bytes()


def _kernel_seconds():
    return resource.getrusage(resource.RUSAGE_SELF).ru_stime
