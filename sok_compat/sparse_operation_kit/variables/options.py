# SPDX-License-Identifier: Apache-2.0
"""`DynamicOptions`: the options of a DynamicVariable beyond its keys and rows."""

from __future__ import annotations

import dataclasses
import functools
import logging
import numbers
import operator
from typing import Any

from sok_compat.runtime.known_words import raise_for_unknown_words

VAR_TYPES = ("hbm", "hybrid")
_CUSTOMIZED = "kCustomized"
EVICT_STRATEGIES = ("kLru", _CUSTOMIZED)
_DEFAULT_CAPACITY = 64 << 20
_MOST_ROWS = 1 << 62

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class DynamicOptions:
    """Options of a DynamicVariable, by SparseOperationKit's names. Those of its GPU memory
    (max_hbm_for_vectors to device_id) change nothing here.

    init_capacity: rows on a rank to begin with; rounded up to a power of two.
    max_capacity: most keys on a rank, of var_type 'hybrid'; rounded up to a power of two.
    max_hbm_for_vectors: GiB.
    evict_strategy: 'kLru' or 'kCustomized'. Both evict the least recently used keys, as lookups
      have no scores; the latter warns.
    filter_ratio: probability with which lookups with use_low_frequency_filter=True admit a key.
    """

    init_capacity: int = _DEFAULT_CAPACITY
    max_capacity: int = _DEFAULT_CAPACITY
    max_hbm_for_vectors: float = 16
    max_load_factor: float = 0.5
    max_bucket_size: int = 128
    block_size: int = 1024
    io_by_cpu: bool = False
    device_id: int = -1
    evict_strategy: str = "kLru"
    filter_ratio: float = 1.0

    @classmethod
    def of(cls, given: dict[str, Any]) -> DynamicOptions:
        """Returns the checked options of keyword arguments.

        Raises:
          TypeError: an option is unknown.
          ValueError: an option is out of range.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        raise_for_unknown_words("DynamicVariable", given, names)
        given = dict(given)
        for name in ("init_capacity", "max_capacity"):
            if name in given:
                given[name] = _rounded_up(name, given[name])
        if "max_capacity" in given:
            given.setdefault("init_capacity", min(_DEFAULT_CAPACITY, given["max_capacity"]))
        elif "init_capacity" in given:
            given["max_capacity"] = max(_DEFAULT_CAPACITY, given["init_capacity"])
        return cls(**given)

    def __post_init__(self) -> None:
        if self.init_capacity > self.max_capacity:
            raise ValueError(
                f"init_capacity must be at most max_capacity, {self.max_capacity}, got "
                f"{self.init_capacity} (both rounded up to powers of two)"
            )
        if self.evict_strategy not in EVICT_STRATEGIES:
            raise ValueError(
                f"evict_strategy must be one of {EVICT_STRATEGIES}, got {self.evict_strategy!r}"
            )
        if self.evict_strategy == _CUSTOMIZED:
            _warn_of_customized()
        for name in ("max_hbm_for_vectors", "max_bucket_size", "block_size"):
            if not self._number(name) >= 0:
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)!r}")
        if not 0 < self._number("max_load_factor") <= 1:
            raise ValueError(f"max_load_factor must be in (0, 1], got {self.max_load_factor!r}")
        if not 0 <= self._number("filter_ratio") <= 1:
            raise ValueError(f"filter_ratio must be in [0, 1], got {self.filter_ratio!r}")

    def _number(self, name: str) -> float:
        number = getattr(self, name)
        if not isinstance(number, numbers.Real):
            raise ValueError(f"{name} must be a number, got {number!r}")
        return float(number)


@functools.cache
def _warn_of_customized() -> None:
    """Once in a process."""
    _logger.warning(
        "evict_strategy='kCustomized' evicts the least recently used keys, as 'kLru' does: lookups "
        "have no scores"
    )


def checked_var_type(var_type: str | None) -> str:
    """Returns 'hbm' or 'hybrid' (also for None).

    Raises:
      ValueError: var_type is none of these.
    """
    if var_type not in (None, *VAR_TYPES):
        raise ValueError(f"var_type must be one of {VAR_TYPES} or None, got {var_type!r}")
    return var_type or "hybrid"


def _rounded_up(name: str, rows: Any) -> int:
    try:
        number = operator.index(rows)
    except TypeError:
        number = 0
    if not 1 <= number <= _MOST_ROWS:
        raise ValueError(f"{name} must be an int from 1 to 2**62, got {rows!r}")
    return 1 << (number - 1).bit_length()
