# SPDX-License-Identifier: Apache-2.0
"""What an embedding variable takes grows with its keys: rows, slots and index, not with ids."""

import pytest

from tests.support.processes.subprocess_python import run_python

DIM = 16
KEYS_OF_A_STEP = 50_000
STEPS = 8
WARM_UP = 4
AGAIN = 5
TRIES = 6
ROW_BYTES = 4 * DIM
INDEX_BYTES = 24  # of a key; benchmarks/inserts.py measures what a large table takes

SCRIPT = f"""
import resource
import numpy as np
import sok_compat.deeprec as tf

def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()

ids = tf.placeholder(tf.int64, [None])
variable = tf.get_embedding_variable("v", {DIM})
optimizer = {{optimizer}}
step = optimizer.minimize(tf.reduce_sum(tf.square(tf.nn.embedding_lookup(variable, ids))))
numbers = np.arange({STEPS + WARM_UP} * {KEYS_OF_A_STEP}, dtype=np.uint64)
keys = (numbers * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)  # all over the range of int64
batches = np.split(keys, {STEPS + WARM_UP})
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for batch in batches[:{WARM_UP}]:  # what steps with so many new keys take
        session.run(step, {{{{ids: batch}}}})
    before = resident_bytes()
    for batch in batches[{WARM_UP}:]:
        session.run(step, {{{{ids: batch}}}})
    grown = resident_bytes()
    for batch in batches * {AGAIN}:
        session.run(step, {{{{ids: batch}}}})
    again = resident_bytes()
    print(session.run(variable.total_count())[0], grown - before, again - grown)
"""


def _growth(optimizer):
    """(keys, bytes for each key that came, bytes for steps with these keys once more)."""
    printed = run_python(SCRIPT.format(optimizer=optimizer)).splitlines()[-1].split()
    keys, grown, again = map(int, printed)
    return keys, grown / (STEPS * KEYS_OF_A_STEP), again


@pytest.mark.thorough
def test_memory_follows_the_keys():
    for optimizer, planes in [
        ("tf.train.GradientDescentOptimizer(0.1)", 1),
        ("tf.train.AdagradOptimizer(0.1)", 2),
        ("tf.train.AdamOptimizer(0.1)", 3),
    ]:
        wanted = planes * ROW_BYTES
        for _ in range(TRIES):  # what an allocator keeps differs from run to run
            keys, bytes_of_key, again = _growth(optimizer)
            if bytes_of_key < 1.5 * (wanted + INDEX_BYTES):
                break
        assert keys == (STEPS + WARM_UP) * KEYS_OF_A_STEP
        # Planes have memory up to the next huge page, the index has room to grow.
        assert 0.8 * wanted < bytes_of_key < 1.5 * (wanted + INDEX_BYTES), (optimizer, bytes_of_key)
        # An allocator keeps some of what a step took, once: not a row for each id that comes.
        assert again < AGAIN * STEPS * KEYS_OF_A_STEP * wanted / 4, (optimizer, again)
