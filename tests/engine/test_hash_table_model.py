# SPDX-License-Identifier: Apache-2.0
"""HashTable against a dict, over sequences of calls that hypothesis makes up."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sok_compat.engine import CapacityError
from tests.engine.crowded_keys import crowded_keys
from tests.engine.devices import NewTable, skip_without_gpu

CAPACITY = 150
DIM = 2


class AgainstDict(RuleBasedStateMachine):
    """`rows` is what the table should hold: key -> row."""

    new_table = NewTable("cpu")

    @initialize(key_dtype=st.sampled_from(["int64", "uint32"]), num_threads=st.integers(1, 2))
    def create(self, key_dtype, num_threads):
        self.pool = crowded_keys(key_dtype)
        self.table = self.new_table(
            DIM, CAPACITY, name="t", seed=3, key_dtype=key_dtype, num_threads=num_threads
        )
        self.untouched = self.new_table(DIM, name="t", seed=3)
        self.rows = {}

    def keys_of(self, numbers):
        return [self.pool[number % len(self.pool)] for number in numbers]

    def known_keys_of(self, numbers):
        known = sorted(self.rows)
        return [known[number % len(known)] for number in numbers] if known else []

    batches = st.lists(st.integers(0, 10_000), max_size=80)

    @rule(numbers=batches, with_rows=st.booleans())
    def insert(self, numbers, with_rows):
        keys = self.keys_of(numbers)
        given = np.arange(len(keys) * DIM, dtype=np.float32).reshape(-1, DIM)
        fresh = given if with_rows else self.untouched.gather(keys)
        new = {key: row for key, row in reversed(list(zip(keys, fresh))) if key not in self.rows}
        if len(self.rows) + len(new) > CAPACITY:
            with pytest.raises(CapacityError):
                self.table.insert(keys, given if with_rows else None)
            return
        row_ids = self.table.insert(keys, given if with_rows else None)
        self.rows.update({key: row.copy() for key, row in new.items()})
        np.testing.assert_array_equal(row_ids, self.table.find(keys))

    @rule(numbers=batches)
    def erase(self, numbers):
        keys = self.keys_of(numbers)
        num_erased = len({key for key in keys if self.rows.pop(key, None) is not None})
        assert self.table.erase(keys) == num_erased

    @rule(numbers=batches)
    def scatter_add(self, numbers):
        keys = self.known_keys_of(numbers)
        values = np.ones((len(keys), DIM), np.float32)
        self.table.scatter_add(keys, values)
        for key in keys:
            self.rows[key] += 1

    @rule(numbers=batches)
    def assign(self, numbers):
        keys = self.known_keys_of(numbers)
        values = np.arange(len(keys) * DIM, dtype=np.float32).reshape(-1, DIM)
        self.table.assign(keys, values)
        for key, value in zip(keys, values):
            self.rows[key] = value.copy()

    @rule(numbers=batches)
    def change_with_an_unknown_key(self, numbers):
        keys = self.keys_of(numbers)
        if all(key in self.rows for key in keys):
            return
        with pytest.raises(KeyError):
            self.table.scatter_add(keys, np.ones((len(keys), DIM)))

    @rule(numbers=batches)
    def gather(self, numbers):
        keys = self.keys_of(numbers)
        expected = self.untouched.gather(keys)
        for i, key in enumerate(keys):
            expected[i] = self.rows.get(key, expected[i])
        np.testing.assert_array_equal(self.table.gather(keys), expected)

    @rule()
    def clear(self):
        self.table.clear()
        self.rows = {}

    @invariant()
    def same(self):
        if not hasattr(self, "table"):
            return
        assert len(self.table) == len(self.rows)
        row_ids = self.table.find(self.pool)
        in_use = row_ids[row_ids >= 0]
        assert len(set(in_use.tolist())) == len(in_use) == len(self.rows)
        assert [key in self.rows for key in self.pool] == (row_ids >= 0).tolist()
        keys, rows = self.table.export()
        np.testing.assert_array_equal(self.table.find(keys), np.sort(in_use))
        for key, row in zip(keys.tolist(), rows):
            np.testing.assert_array_equal(row, self.rows[key])


AgainstDict.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestAgainstDict = AgainstDict.TestCase


class AgainstDictOnGpu(AgainstDict):
    new_table = NewTable("cuda:0-numpy")


AgainstDictOnGpu.TestCase.settings = AgainstDict.TestCase.settings
TestAgainstDictOnGpu = skip_without_gpu(AgainstDictOnGpu.TestCase)


@pytest.mark.parametrize("key_dtype", ["int64", "uint32"])
@pytest.mark.parametrize("num_threads", [1, 3])
def test_a_long_life_with_growth(new_table, key_dtype, num_threads):
    random = np.random.default_rng(num_threads)
    limits = np.iinfo(key_dtype)
    table = new_table(1, initializer="zeros", key_dtype=key_dtype, num_threads=num_threads)
    expected = {}
    for step in range(60):
        fresh = random.integers(limits.min, limits.max, 3000, dtype=key_dtype, endpoint=True)
        known = random.permutation(np.array(list(expected), key_dtype))[:2000]
        batch = random.permutation(np.concatenate([fresh, known, fresh[:500]]))
        table.insert(batch)
        table.scatter_add(batch, np.ones((len(batch), 1)))
        for key in batch.tolist():
            expected[key] = expected.get(key, 0) + 1
        if step % 3 == 0:
            gone = known[:1500]
            assert table.erase(gone) == len(gone)
            for key in gone.tolist():
                del expected[key]
        assert len(table) == len(expected)
    keys = np.array(list(expected), key_dtype)
    np.testing.assert_array_equal(table.gather(keys).ravel(), list(expected.values()))
    assert (np.sort(table.export()[0]) == np.sort(keys)).all()
