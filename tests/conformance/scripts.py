# SPDX-License-Identifier: Apache-2.0
"""Scripts: a table and calls on it, with what the contract says of them. No TensorFlow."""

import dataclasses
import re
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Slot:
    """A plane beside the rows, filled with one value."""

    name: str
    width: int
    initial_value: float = 0.0


@dataclasses.dataclass(frozen=True)
class Spec:
    """A table before its first call. `is_made` False: its calls come before its initializer."""

    dim: int = 2
    capacity: int = 8
    use_hash_index: bool = True
    num_ranks: int = 1
    rank: int = 0
    placement: str = "modulo"
    owner_rank: int = 0  # of the placement "one_rank"
    num_keys: int = 0  # of the placement "range"
    first_value: str = "uniform"
    low_or_mean: float = -0.05
    high_or_stddev: float = 0.05
    first_value_period: int = 0
    seed: int = 7
    key_dtype: str = "int64"
    slots: tuple = ()
    preset: Any = None  # [capacity, dim]
    history: Any = None  # attributes of SokTableInitialize; None: none is kept
    is_made: bool = True
    beside: tuple = ()  # Specs of more tables in the same session


@dataclasses.dataclass(frozen=True)
class Fails:
    """An error of class tf.errors.<kind> whose message has a match; both are patterns."""

    kind: str
    pattern: str = ""


@dataclasses.dataclass(frozen=True)
class Call:
    """A method of TableOps with its arguments; `expected`: a value, a Fails, or None: no error."""

    method: str
    arguments: tuple
    options: dict
    expected: Any = None


@dataclasses.dataclass(frozen=True)
class Script:
    """`only_on` "cpu" or "devices": what the others do is another script, or nobody's promise.
    Floats of engines may differ by `tolerance` times their size."""

    spec: Spec
    calls: tuple
    only_on: str = ""
    tolerance: float = 0.0

    def __init__(self, spec, *calls, only_on="", tolerance=0.0):
        fields = {"spec": spec, "calls": calls, "only_on": only_on, "tolerance": tolerance}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def is_on(self, engine):
        return not self.only_on or (engine == "cpu") == (self.only_on == "cpu")


class NotPossibleHere(Exception):
    """A call asks for what this machine does not have: its script is skipped."""


def call(method, *arguments, gives=None, fails=None, **options):
    """A call; `gives` is what it returns, `fails` the class of its error, or a Fails."""
    if isinstance(fails, str):
        fails = Fails(fails)
    return Call(method, arguments, options, fails if fails is not None else gives)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a call did: arrays as (dtype, shape, bytes), or an error. Equal means the same bits."""

    arrays: tuple = ()
    error: str = ""
    message: str = ""
    changed: str = ""  # after an error: what of the table is not as it was before the call

    @classmethod
    def of_values(cls, values):
        return cls(tuple(_frozen(np.asarray(value)) for value in values))

    def says_as(self, other, tolerance=0.0):
        """Whether it gave the same, whatever it has changed."""
        if (self.error, self.message) != (other.error, other.message):
            return False
        if tolerance == 0:
            return self.arrays == other.arrays
        pairs = list(zip(self.values(), other.values()))
        return len(self.arrays) == len(other.arrays) and all(
            one.shape == two.shape and np.allclose(one, two, tolerance, tolerance)
            for one, two in pairs
        )

    def values(self):
        return [np.frombuffer(data, dtype).reshape(shape) for dtype, shape, data in self.arrays]

    def __str__(self):
        if self.error:
            return f"{self.error}: {self.message}"
        return ", ".join(np.array2string(value, threshold=20) for value in self.values())


def _frozen(array):
    return array.dtype.str, array.shape, array.tobytes()


def broken_promise(one_call, outcome):
    """What the call promises and the outcome does not keep; "" where it keeps all."""
    expected = one_call.expected
    if isinstance(expected, Fails):
        is_kept = re.fullmatch(expected.kind, outcome.error) and re.search(
            expected.pattern, outcome.message
        )
        return "" if is_kept else f"expected {expected}, got {outcome}"
    if outcome.error:
        return f"expected {expected}, got {outcome}"
    if expected is None:
        return ""
    actual = outcome.values()
    actual = actual[0] if len(actual) == 1 else actual
    return "" if _agree(actual, expected) else f"expected {expected}, got {actual}"


def _agree(actual, expected):
    if isinstance(actual, list):
        same = [_agree(one, other) for one, other in zip(actual, expected)]
        return len(actual) == len(expected) and all(same)
    expected = np.asarray(expected, actual.dtype)
    return actual.size == expected.size and np.array_equal(
        actual.reshape(expected.shape), expected, equal_nan=actual.dtype.kind == "f"
    )
