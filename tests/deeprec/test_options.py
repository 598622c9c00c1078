# SPDX-License-Identifier: Apache-2.0
"""DeepRec's option classes: defaults, attributes, and what is refused."""

import math

import pytest
import tensorflow as tf

from sok_compat.deeprec.variables import variable_creation
from sok_compat.deeprec.variables.key_histories import history_of
from sok_compat.deeprec.variables.options import (
    CBFFilter,
    CheckpointOption,
    CounterFilter,
    EmbeddingVariableOption,
    GlobalStepEvict,
    InitializerOption,
    L2WeightEvict,
)
from sok_compat.deeprec.variables.storage_option import CacheStrategy, StorageOption, StorageType
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from sok_compat.tables.key_history import BloomCounts, KeyHistory


def test_defaults():
    option = EmbeddingVariableOption()
    assert (option.evict, option.ckpt, option.filter_strategy) == (None, None, None)
    assert option.init.default_value_dim == 4096
    assert option.storage_option.storage_size == [1 << 30] * 4
    other = StorageOption(storage_size=[1, 2])
    assert other.storage_size == [1, 2, 1 << 30, 1 << 30]
    assert StorageOption().storage_size == [1 << 30] * 4
    assert CheckpointOption().always_load_from_specific_ckpt is False


@pytest.mark.parametrize("make, message", [
    (lambda: CBFFilter(3, 10, 0.0), "must be above 0 and below 1, got 0.0"),
    (lambda: CBFFilter(3, 10, 1.0), "must be above 0 and below 1, got 1.0"),
    (lambda: CBFFilter(300, 10, 0.1, tf.uint8), "that can hold filter_freq 300, got uint8"),
    (lambda: CBFFilter(3, 10, 0.1, tf.float32), "counter_type must be an integer"),
    *((lambda freq=freq, make=make: make(freq), "filter_freq must be an int >= 0, got ")
      for freq in (-1, 1.5, None, "3", True) for make in (CounterFilter, CBFFilter)),
    (lambda: CBFFilter(3, 10, math.nan), "false_positive_probability must be a finite number"),
    (lambda: CBFFilter(3, -5, 0.1), "max_element_size must be an int >= 0, got -5"),
    (lambda: CBFFilter(3, 1.5, 0.1), "max_element_size must be an int >= 0, got 1.5"),
    (lambda: CBFFilter(3, 10, 0.1, "x"), "counter_type must be an integer, got 'x'"),
    *((lambda dim=dim: InitializerOption(default_value_dim=dim), "dim must be an int >= 1, got ")
      for dim in (0, -3, 2.5, None)),
    *((lambda value=value: InitializerOption(default_value_no_permission=value),
       "default_value_no_permission must be a finite number, got ")
      for value in (math.nan, math.inf, "0", [0.0, 1.0], None)),
    *((lambda value=value: L2WeightEvict(value), "l2_weight_threshold must be ")
      for value in (math.nan, math.inf, 0, -0.5, -2, "1", None)),
    *((lambda value=value: GlobalStepEvict(value), "steps_to_live must be an int >= 0, got ")
      for value in (-1, 2.5, "5")),
    (lambda: CheckpointOption(5), "ckpt_to_load_from must be a string or None, got 5"),
    (lambda: CheckpointOption("a", 5), "tensor_name_in_ckpt must be a string or None, got 5"),
    (lambda: StorageOption(storage_size=[-1]), "storage_size must be an int >= 0, got -1"),
    (lambda: StorageOption(storage_size=[1] * 5), "at most 4 sizes, one for each tier, got"),
    (lambda: CBFFilter(3, 0, 0.1), "max_element_size must be above 0, got 0"),
    (lambda: CBFFilter(3, 10), "max_element_size 10 needs a false_positive_probability"),
    (lambda: StorageOption(storage_size=5), "storage_size must be a list, got 5"),
    (lambda: StorageOption(storage_path="p"), "storage_path 'p' needs a storage_type"),
    (lambda: StorageOption(StorageType.DRAM_SSDHASH), "DRAM_SSDHASH needs a storage_path"),
    (lambda: StorageOption(99), r"one of StorageType\.{DEFAULT, DRAM, .*}, got 99"),
    (lambda: StorageOption("HBM"), "storage_type must be one of .*, got 'HBM'"),
    (lambda: StorageOption(cache_strategy=7), "one of CacheStrategy.{LRU, LFU}, got 7"),
    (lambda: StorageType.Value("SSD"), "StorageType has no 'SSD', only"),
    (lambda: CacheStrategy.Name(7), "7 is not a valid CacheStrategy"),
])  # fmt: skip
def test_what_no_option_is(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_enums_are_ints_as_those_of_protocol_messages():
    assert [int(one) for one in StorageType] == [0, 1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 101, 102]
    assert StorageType.Name(6) == "HBM" and StorageType.Value("HBM") is StorageType.HBM
    assert ("SSDHASH", 4) in StorageType.items() and 102 in StorageType.values()
    assert CacheStrategy.keys() == ["LRU", "LFU"] and CacheStrategy.LRU < CacheStrategy.LFU
    assert StorageOption(13).storage_type is StorageType.HBM_DRAM
    assert StorageOption(cache_strategy=0).cache_strategy is CacheStrategy.LRU


@pytest.mark.parametrize("argument, attribute, given", [
    ("evict_option", "evict", CounterFilter(2)), ("filter_option", "filter_strategy", 5),
    ("ckpt", "ckpt", "path"), ("storage_option", "storage_option", StorageType.DRAM),
    ("init_option", "init", 0.5),
])  # fmt: skip
def test_options_of_another_kind(graph, argument, attribute, given):
    late = EmbeddingVariableOption()
    setattr(late, attribute, given)
    for option in (EmbeddingVariableOption(**{argument: given}), late):
        with pytest.raises(ValueError, match=f"v: {argument} must be a .*, got "):
            get_embedding_variable("v", 2, ev_option=option)


@pytest.mark.parametrize("settings, message", [
    (dict(ckpt=CheckpointOption("path", None, True)), "always_load_from_specific_ckpt"),
    (dict(ckpt=CheckpointOption(init_data_source="x")), "init_data_source"),
])  # fmt: skip
def test_what_is_not_there_yet(graph, settings, message):
    with pytest.raises(NotImplementedError, match=message):
        get_embedding_variable("v", 2, ev_option=EmbeddingVariableOption(**settings))


def test_arguments_that_are_not_there_yet(graph):
    with pytest.raises(NotImplementedError, match="init_data_source"):
        get_embedding_variable("v", 2, init_data_source="x")
    both = EmbeddingVariableOption(evict_option=L2WeightEvict(0.5))
    with pytest.raises(ValueError, match="not by both"):
        get_embedding_variable("v", 2, steps_to_live=5, ev_option=both)
    for steps in (-5, 1.5):
        with pytest.raises(ValueError, match=f"v: steps_to_live must be an int >= 0, got {steps}"):
            get_embedding_variable("v", 2, steps_to_live=steps)


@pytest.mark.parametrize("given, option, expected", [
    (None, None, None), (5, None, 5), (5, GlobalStepEvict(4), 4), (None, GlobalStepEvict(4), 4),
    (0, GlobalStepEvict(), None),
])  # fmt: skip
def test_steps_to_live(graph, given, option, expected):
    option = EmbeddingVariableOption(evict_option=option)
    variable = get_embedding_variable("v", 2, steps_to_live=given, ev_option=option)
    assert variable.steps_to_live == expected
    assert (variable.before_save() is None) == (variable.history is None) == (expected is None)


def test_a_bloom_filter_is_as_large_as_it_must_be():
    bloom = BloomCounts.of(1000, 0.01, 4)
    assert bloom == BloomCounts(9586, 7, 4)
    option = EmbeddingVariableOption(filter_option=CBFFilter(3, 1001, 0.01, tf.uint32))
    assert history_of(option, None, 1).bloom.num_counters > bloom.num_counters
    assert history_of(option, None, 4).bloom == BloomCounts.of(251, 0.01, 4)
    exact = EmbeddingVariableOption(filter_option=CBFFilter(3))
    assert history_of(exact, None, 1) == KeyHistory(filter_freq=3)


@pytest.mark.parametrize("storage_type", [None, StorageType.DEFAULT, StorageType.DRAM])
def test_options_without_effect_are_taken(graph, storage_type):
    option = EmbeddingVariableOption(
        filter_option=CounterFilter(0),
        evict_option=GlobalStepEvict(),
        ckpt=CheckpointOption(),
        storage_option=StorageOption(storage_type),
    )
    variable = get_embedding_variable("v", 2, ev_option=option)
    assert variable.ev_option is option and variable.storage_type is StorageType.DRAM


def test_gpu_memory_where_there_is_no_gpu(graph, caplog, monkeypatch):
    monkeypatch.setattr(variable_creation, "_warned_of", set())
    option = EmbeddingVariableOption(storage_option=StorageOption(StorageType.HBM))
    variable, _ = (get_embedding_variable(name, 2, ev_option=option) for name in "vw")
    assert variable.storage_type is StorageType.HBM
    if "CPU" in variable.device:
        assert caplog.text.count("v: storage type HBM, but no GPU") == 1
        assert "w: storage type" not in caplog.text
