# SPDX-License-Identifier: Apache-2.0
"""Scripts that hypothesis makes up: on every engine the same as on the CPU, errors included."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conformance.conftest import worker_or_skip
from tests.conformance.engines import CPU, engines_here
from tests.conformance.scripts import Script, Spec, call
from tests.conformance.training_cases import RULES, STATES, apply

CAPACITY, DIM = 8, 2

numbers = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 1e-41]), st.floats(-1000, 1000, width=32)
)  # fmt: skip


def rows(count):
    """Rows [count, DIM], none included."""
    values = st.lists(numbers, min_size=count * DIM, max_size=count * DIM)
    return values.map(lambda flat: np.array(flat, np.float32).reshape(count, DIM))


@st.composite
def specs(draw):
    first_value = draw(st.sampled_from(["uniform", "truncated_normal", "constant", "preset"]))
    preset = draw(rows(CAPACITY)) if first_value == "preset" else None
    num_ranks = draw(st.sampled_from([1, 3]))
    return Spec(
        dim=DIM, capacity=CAPACITY, use_hash_index=draw(st.booleans()), num_ranks=num_ranks,
        rank=num_ranks - 1, first_value=first_value, slots=STATES, preset=preset,
        first_value_period=draw(st.sampled_from([0, 3])),
        key_dtype=draw(st.sampled_from(["int64", "uint32"])),
    )  # fmt: skip


class Calls:
    """Draws calls for a table of this kind: right ones, and some that must fail."""

    def __init__(self, draw, spec):
        self.draw, self.spec = draw, spec
        own = [key * spec.num_ranks + spec.rank for key in range(CAPACITY + 3)]
        self.keys = st.sampled_from(own if spec.use_hash_index else [*own[:-2], *own])
        self.row_ids = st.one_of(st.integers(0, 3), st.integers(-1, CAPACITY))

    def some(self, values, **options):
        return self.draw(st.lists(values, max_size=6, **options))

    def rows(self, count):
        return self.draw(rows(count))

    def one(self):
        kinds = [self.find, self.insert_rows, self.pool, self.train, self.update, self.slots]
        return self.draw(st.sampled_from([*kinds, *kinds, self.contents, self.replace]))()

    def find(self):
        return call("find", self.some(self.keys), insert=self.draw(st.booleans()))

    def insert_rows(self):
        keys = self.some(self.keys)
        return call("insert_rows", keys, self.rows(len(keys)))

    def pool(self):
        keys = self.some(self.keys, min_size=1, unique=True)
        inverse = self.some(st.integers(0, len(keys) - 1))
        cuts = sorted(self.some(st.integers(0, len(inverse))))
        combiner = self.draw(st.sampled_from(["none", "sum", "mean"]))
        weights = self.draw(st.lists(numbers, min_size=len(inverse), max_size=len(inverse)))
        weights = weights if self.draw(st.booleans()) else []
        return call("pool", keys, inverse, [0, *cuts, len(inverse)], combiner, weights)

    def train(self):
        row_ids = self.some(self.row_ids)
        rule = self.draw(st.sampled_from(list(RULES)))
        rows_to_update = self.draw(st.sampled_from(["given", "in_use"]))
        return apply(rule, self.rows(len(row_ids)), row_ids, rows_to_update=rows_to_update)

    def update(self):
        # In range: the op is TensorFlow's, and writes up to the first row that is not.
        row_ids = self.some(st.integers(0, CAPACITY - 1), unique=True)
        kind = self.draw(st.sampled_from(["Add", "Sub", "Update"]))
        return call("scatter", kind, row_ids, self.rows(len(row_ids)))

    def slots(self):
        width, keep_existing = self.draw(st.integers(1, 3)), self.draw(st.booleans())
        name = f"late_{width}"
        initial_value = self.draw(st.sampled_from([0.0, 0.5]))
        return call("attach", name, width, initial_value, keep_existing=keep_existing)

    def contents(self):
        return call(self.draw(st.sampled_from(
            ["export", "contents", "rows_in_use", "dump", "restore", "initialize", "size"]
        )))  # fmt: skip

    def replace(self):
        keys = self.some(self.keys)
        values = self.rows(len(keys))
        if self.draw(st.booleans()):
            return call("load", values)
        slots = {"accumulator": values} if self.draw(st.booleans()) else {}
        return call("restore_rows", keys, values, slots)


@st.composite
def scripts(draw):
    spec = draw(specs())
    calls = Calls(draw, spec)
    length = draw(st.integers(1, 12))
    return Script(spec, *(calls.one() for _ in range(length)), call("contents"))


@pytest.mark.parametrize("engine", engines_here(but=CPU))
@settings(max_examples=40, deadline=None, derandomize=True,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(script=scripts())
def test_the_same_as_on_the_cpu(engine, script):
    on_cpu = worker_or_skip(CPU.name).run(script)
    on_engine = worker_or_skip(engine).run(script)
    assert len(on_cpu) == len(on_engine) == len(script.calls)  # no call has ended the process
    for one_call, expected, actual in zip(script.calls, on_cpu, on_engine):
        assert actual.says_as(expected), f"{one_call.method}: {actual}, not {expected}"
        assert not actual.changed and not expected.changed, one_call.method
