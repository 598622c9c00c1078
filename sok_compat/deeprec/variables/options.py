# SPDX-License-Identifier: Apache-2.0
"""`EmbeddingVariableOption` and its parts, and checks for unsupported options."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NoReturn, Union

import numpy as np
import tensorflow as tf

from sok_compat.deeprec.variables.storage_option import StorageOption
from sok_compat.runtime.checked_values import checked_count, checked_number, checked_text
from sok_compat.runtime.known_words import checks_words
from sok_compat.tables.first_value import Initializer

DEFAULT_VALUE_DIM = 4096
# Also one row, [embedding_dim], as which all keys start.
InitializerOfRows = Union[Initializer, Sequence[float], np.ndarray, tf.Tensor]


class InitializerOption:
    """First values of rows. API of DeepRec.

    Attributes:
      initializer: as for get_embedding_variable, whose initializer it overrides; None: does not.
      default_value_dim: keys k and floormod(k, default_value_dim) start alike.
      default_value_no_permission: the value of lookups of keys that a filter has not admitted.
    """

    @checks_words()
    def __init__(
        self,
        initializer: InitializerOfRows = None,
        default_value_dim: int = DEFAULT_VALUE_DIM,
        default_value_no_permission: float = 0.0,
    ) -> None:
        """Sets the attributes; ValueError: a number out of range.

        Args:
          initializer: as the attribute.
          default_value_dim: an int >= 1.
          default_value_no_permission: a number.
        """
        self.initializer = initializer
        self.default_value_dim = checked_count("default_value_dim", default_value_dim, 1)
        self.default_value_no_permission = checked_number(
            "default_value_no_permission", default_value_no_permission
        )


class GlobalStepEvict:
    """When a checkpoint is saved, evicts keys not trained for more than `steps_to_live` steps.

    API of DeepRec.
    """

    @checks_words()
    def __init__(self, steps_to_live: int | None = None) -> None:
        """Sets the attribute.

        Args:
          steps_to_live: steps; None and 0: evicts no key.

        Raises:
          ValueError: not a number of steps.
        """
        if steps_to_live is not None:
            steps_to_live = checked_count("steps_to_live", steps_to_live)
        self.steps_to_live = steps_to_live


class L2WeightEvict:
    """When a checkpoint is saved, evicts keys with a small row, by half its squared L2 norm.

    API of DeepRec.
    """

    @checks_words()
    def __init__(self, l2_weight_threshold: float = -1.0) -> None:
        """Sets the attribute.

        Args:
          l2_weight_threshold: half the squared L2 norm that a row needs to stay; -1: evicts no key.

        Raises:
          ValueError: another threshold that is not above 0.
        """
        threshold = checked_number("l2_weight_threshold", l2_weight_threshold)
        if threshold <= 0 and threshold != -1.0:
            raise ValueError(
                f"l2_weight_threshold must be above 0, got {l2_weight_threshold}: omit the "
                "option to evict no keys"
            )
        self.l2_weight_threshold = threshold


class CounterFilter:
    """Gives a key its row when it has come `filter_freq` times in training steps.

    Until then, lookups give InitializerOption's default_value_no_permission. API of DeepRec.
    """

    @checks_words()
    def __init__(self, filter_freq: int = 0) -> None:
        """Sets the attribute.

        Args:
          filter_freq: times in training steps; 0 and 1: at the first time.

        Raises:
          ValueError: not a number of times.
        """
        self.filter_freq = checked_count("filter_freq", filter_freq)


class CBFFilter:
    """As CounterFilter, but counts in at most the memory of a Bloom filter. API of DeepRec.

    Counts are exact as long as these take less memory than the filter. From then on, with up to
    `max_element_size` keys, a share `false_positive_probability` of them has too high counts.
    Without these two arguments, counts are exact.
    """

    @checks_words()
    def __init__(
        self,
        filter_freq: int = 0,
        max_element_size: int = 0,
        false_positive_probability: float = -1.0,
        counter_type: tf.DType = tf.uint64,
    ) -> None:
        """Sets the attributes.

        Args:
          filter_freq: times in training steps; 0 and 1: at the first time.
          max_element_size: keys that the counts are made for.
          false_positive_probability: the share of keys with too high counts; -1: none.
          counter_type: an integer type that holds filter_freq.

        Raises:
          ValueError: a number out of range; only one of false_positive_probability (above 0 and
            below 1) and max_element_size is given; a counter_type that is not an integer, or too
            small for filter_freq.
        """
        filter_freq = checked_count("filter_freq", filter_freq)
        max_element_size = checked_count("max_element_size", max_element_size)
        probability = checked_number("false_positive_probability", false_positive_probability)
        try:
            counter_type = tf.as_dtype(counter_type)
        except TypeError:
            raise ValueError(f"counter_type must be an integer, got {counter_type!r}") from None
        if not counter_type.is_integer or filter_freq > counter_type.max:
            raise ValueError(
                f"counter_type must be an integer that can hold filter_freq {filter_freq}, got "
                f"{counter_type.name}"
            )
        if probability != -1.0:
            if not 0.0 < probability < 1.0:
                raise ValueError(
                    f"false_positive_probability must be above 0 and below 1, got {probability}"
                )
            if max_element_size == 0:
                raise ValueError(
                    "with a false_positive_probability, max_element_size must be above 0, got "
                    f"{max_element_size}"
                )
        elif max_element_size != 0:
            raise ValueError(
                f"max_element_size {max_element_size} needs a false_positive_probability above 0"
            )
        self.filter_freq = filter_freq
        self.max_element_size = max_element_size
        self.false_positive_probability = probability
        self.counter_type = counter_type


class CheckpointOption:
    """The checkpoint that a variable starts from. API of DeepRec.

    Attributes:
      ckpt_to_load_from: a file, or a folder with checkpoints, from which the variable's initializer
        loads rows; None: the variable starts empty.
      tensor_name_in_ckpt: the variable's name in the checkpoint; None: its own name.
      always_load_from_specific_ckpt, init_data_source: not supported; see check_is_supported.
    """

    @checks_words()
    def __init__(
        self,
        ckpt_to_load_from: str | os.PathLike[str] | None = None,
        tensor_name_in_ckpt: str | None = None,
        always_load_from_specific_ckpt: bool = False,
        init_data_source: str | None = None,
    ) -> None:
        """Sets the attributes; ValueError: a file or name that is not a string.

        Args:
          ckpt_to_load_from, tensor_name_in_ckpt, always_load_from_specific_ckpt,
            init_data_source: see the attributes.
        """
        self.ckpt_to_load_from = checked_text("ckpt_to_load_from", ckpt_to_load_from)
        self.tensor_name_in_ckpt = checked_text("tensor_name_in_ckpt", tensor_name_in_ckpt)
        self.always_load_from_specific_ckpt = always_load_from_specific_ckpt
        self.init_data_source = init_data_source


class EmbeddingVariableOption:
    """Options of an EmbeddingVariable. API of DeepRec.

    Attributes:
      ht_type, ht_partition_num: of DeepRec's hash table; ignored.
      evict: a GlobalStepEvict or L2WeightEvict.
      ckpt: a CheckpointOption.
      filter_strategy: a CounterFilter or CBFFilter.
      storage_option: a StorageOption.
      init: an InitializerOption.
    """

    @checks_words()
    def __init__(
        self,
        ht_type: str = "",
        ht_partition_num: int = 1000,
        evict_option: GlobalStepEvict | L2WeightEvict | None = None,
        ckpt: CheckpointOption | None = None,
        filter_option: CounterFilter | CBFFilter | None = None,
        storage_option: StorageOption | None = None,
        init_option: InitializerOption | None = None,
    ) -> None:
        """Sets the attributes; storage_option and init_option default to those of their class.

        Args:
          ht_type, ht_partition_num: ignored.
          evict_option: a GlobalStepEvict or L2WeightEvict; None: keys stay.
          ckpt: a CheckpointOption; None: the variable starts empty.
          filter_option: a CounterFilter or CBFFilter; None: each key gets a row.
          storage_option: None: StorageOption().
          init_option: None: InitializerOption().
        """
        self.ht_type = ht_type
        self.ht_partition_num = ht_partition_num
        self.evict = evict_option
        self.ckpt = ckpt
        self.filter_strategy = filter_option
        self.storage_option = StorageOption() if storage_option is None else storage_option
        self.init = InitializerOption() if init_option is None else init_option


_KINDS: dict[str, tuple[str, tuple[type, ...]]] = {  # {argument: (attribute, allowed classes)}
    "evict_option": ("evict", (GlobalStepEvict, L2WeightEvict, type(None))),
    "ckpt": ("ckpt", (CheckpointOption, type(None))),
    "filter_option": ("filter_strategy", (CounterFilter, CBFFilter, type(None))),
    "storage_option": ("storage_option", (StorageOption,)),
    "init_option": ("init", (InitializerOption,)),
}


def check_is_supported(
    name: str,
    option: EmbeddingVariableOption,
    steps_to_live: int | None = None,
    init_data_source: Any = None,
) -> None:
    """Raises for options of a wrong class, and for options that are not supported yet.

    Warns of tiers whose place DRAM takes, once for each.

    Args:
      steps_to_live: argument of get_embedding_variable, the older form of GlobalStepEvict.

    Raises:
      ValueError: an option of a wrong class; both steps_to_live and an L2 threshold; steps_to_live
        below 0.
      NotImplementedError: init_data_source; always_load_from_specific_ckpt.
    """
    for argument, (attribute, kinds) in _KINDS.items():
        given = getattr(option, attribute)
        if not isinstance(given, kinds):
            names = " or ".join(kind.__name__ for kind in kinds)
            raise ValueError(f"{name}: {argument} must be a {names}, got {given!r}")
    if steps_to_live is not None:
        checked_count(f"{name}: steps_to_live", steps_to_live)
    threshold = getattr(option.evict, "l2_weight_threshold", -1.0)
    steps = getattr(option.evict, "steps_to_live", None) or steps_to_live
    if steps and threshold > 0:
        raise ValueError(
            f"{name}: keys can be evicted by steps_to_live (got {steps}) or by l2_weight_threshold "
            f"(got {threshold}), not by both"
        )
    option.storage_option.warn_of_tiers(name)
    if getattr(option.ckpt, "always_load_from_specific_ckpt", False):
        _refuse(name, f"always_load_from_specific_ckpt ({_described(option.ckpt)})")
    init_data_source = init_data_source or getattr(option.ckpt, "init_data_source", None)
    if init_data_source is not None:
        _refuse(name, f"init_data_source ({init_data_source!r})")


def _refuse(name: str, what: str) -> NoReturn:
    raise NotImplementedError(
        f"{name}: embedding variables do not support {what} yet: omit it to train without it"
    )


def _described(option: Any) -> str:
    given = ", ".join(f"{key}={value!r}" for key, value in vars(option).items())
    return f"{type(option).__name__}: {given}"
