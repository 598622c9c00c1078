# SPDX-License-Identifier: Apache-2.0
"""Initializers: the distributions of first values. C++ computes the numbers."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Union, get_args


@dataclasses.dataclass(frozen=True)
class Uniform:
    """Uniform in [low, high)."""

    kind: ClassVar[str] = "uniform"  # as the core calls it
    low: float = -0.05
    high: float = 0.05

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"Uniform needs low <= high, got low={self.low}, high={self.high}")


@dataclasses.dataclass(frozen=True)
class Normal:
    """Normal with this mean and standard deviation."""

    kind: ClassVar[str] = "normal"
    mean: float = 0.0
    stddev: float = 0.05

    def __post_init__(self) -> None:
        if not self.stddev >= 0:
            raise ValueError(f"{type(self).__name__} needs stddev >= 0, got {self.stddev}")


@dataclasses.dataclass(frozen=True)
class TruncatedNormal(Normal):
    """Normal, limited to two standard deviations around the mean."""

    kind: ClassVar[str] = "truncated_normal"


@dataclasses.dataclass(frozen=True)
class Constant:
    """The same number in every column."""

    kind: ClassVar[str] = "constant"
    value: float = 0.0


Initializer = Union[Uniform, Normal, TruncatedNormal, Constant]

_BY_NAME: dict[str, Initializer] = {
    "uniform": Uniform(),
    "normal": Normal(),
    "truncated_normal": TruncatedNormal(),
    "zeros": Constant(0.0),
    "ones": Constant(1.0),
}


def parse_initializer(initializer: Any) -> Initializer:
    """Returns the initializer itself, or the one that a name denotes."""
    if isinstance(initializer, get_args(Initializer)):
        return initializer
    if not isinstance(initializer, str):
        raise TypeError(
            "initializer must be Uniform, Normal, TruncatedNormal, Constant or a name, got "
            f"{initializer!r}"
        )
    if initializer not in _BY_NAME:
        raise ValueError(f"initializer must be one of {sorted(_BY_NAME)}, got {initializer!r}")
    return _BY_NAME[initializer]
