# SPDX-License-Identifier: Apache-2.0
"""Turns the filter and eviction of an EmbeddingVariableOption into a table's KeyHistory."""

from __future__ import annotations

import tensorflow as tf

from sok_compat.deeprec.variables.options import (
    CBFFilter,
    CounterFilter,
    EmbeddingVariableOption,
)
from sok_compat.runtime.settings import RECORD_FREQUENCIES, RECORD_VERSIONS
from sok_compat.tables.key_history import BloomCounts, KeyHistory


def steps_to_live_of(option: EmbeddingVariableOption, steps_to_live: int | None) -> int | None:
    """Number of steps without training after which a key is evicted; None: never. A GlobalStepEvict
    overrides the argument of get_embedding_variable."""
    return getattr(option.evict, "steps_to_live", None) or steps_to_live or None


def l2_threshold_of(option: EmbeddingVariableOption) -> float | None:
    """Keys whose row has half its squared L2 norm below this are evicted; None: no key is."""
    threshold = getattr(option.evict, "l2_weight_threshold", -1.0)
    return threshold if threshold > 0 else None


def history_of(
    option: EmbeddingVariableOption, steps_to_live: int | None, num_ranks: int
) -> KeyHistory | None:
    """The KeyHistory of an embedding variable's table on one rank; None if it needs none. num_ranks
    ranks share the keys, and a Bloom filter's capacity."""
    key_filter = option.filter_strategy
    freq = getattr(key_filter, "filter_freq", 0)
    evicts = bool(steps_to_live_of(option, steps_to_live) or l2_threshold_of(option))
    is_recorded = RECORD_FREQUENCIES.value() or RECORD_VERSIONS.value()
    if freq <= 0 and not evicts and not is_recorded:
        return None
    return KeyHistory(
        max(0, freq),
        _bloom_of(key_filter, num_ranks) if freq > 0 else None,
        option.init.default_value_no_permission,
        evicts,
    )


def _bloom_of(key_filter: CounterFilter | CBFFilter | None, num_ranks: int) -> BloomCounts | None:
    """None: exact counts, also for a CBFFilter without a size, as in DeepRec."""
    if not isinstance(key_filter, CBFFilter) or key_filter.max_element_size <= 0:
        return None
    most_keys = -(-key_filter.max_element_size // num_ranks)
    probability = key_filter.false_positive_probability
    return BloomCounts.of(most_keys, probability, tf.as_dtype(key_filter.counter_type).size)
