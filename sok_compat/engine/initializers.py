# SPDX-License-Identifier: Apache-2.0
"""How a row looks when its key first appears. Values only; the numbers are made in C++."""

import dataclasses
from typing import Union


def _check_stddev(normal):
    if not normal.stddev >= 0:
        raise ValueError(f"{type(normal).__name__} needs stddev >= 0, got {normal.stddev}")


@dataclasses.dataclass(frozen=True)
class Uniform:
    """Evenly in [low, high)."""

    low: float = -0.05
    high: float = 0.05

    def __post_init__(self):
        if not self.low <= self.high:
            raise ValueError(f"Uniform needs low <= high, got low={self.low}, high={self.high}")


@dataclasses.dataclass(frozen=True)
class Normal:
    """Normal with this mean and standard deviation."""

    mean: float = 0.0
    stddev: float = 0.05

    def __post_init__(self):
        _check_stddev(self)


@dataclasses.dataclass(frozen=True)
class TruncatedNormal:
    """Normal, given that it lies within two standard deviations of the mean."""

    mean: float = 0.0
    stddev: float = 0.05

    def __post_init__(self):
        _check_stddev(self)


@dataclasses.dataclass(frozen=True)
class Constant:
    """The same number everywhere."""

    value: float = 0.0


Initializer = Union[Uniform, Normal, TruncatedNormal, Constant]

_BY_NAME = {
    "uniform": Uniform(),
    "normal": Normal(),
    "truncated_normal": TruncatedNormal(),
    "zeros": Constant(0.0),
    "ones": Constant(1.0),
}


def parse_initializer(initializer) -> Initializer:
    """The initializer itself, or the one that a name stands for."""
    if isinstance(initializer, Initializer.__args__):
        return initializer
    if not isinstance(initializer, str):
        raise TypeError(
            "initializer must be Uniform, Normal, TruncatedNormal, Constant or a name, got "
            f"{initializer!r}"
        )
    if initializer not in _BY_NAME:
        raise ValueError(f"initializer must be one of {sorted(_BY_NAME)}, got {initializer!r}")
    return _BY_NAME[initializer]
