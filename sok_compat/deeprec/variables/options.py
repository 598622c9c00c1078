# SPDX-License-Identifier: Apache-2.0
"""`EmbeddingVariableOption` and what it is made of, and which of it works here."""

import enum

import tensorflow as tf

from sok_compat.deeprec.variables.checked_values import checked_count, checked_number, checked_text

DEFAULT_VALUE_DIM = 4096
NUM_TIERS = 4  # of a StorageOption
TIER_BYTES = 1 << 30


class _ProtocolEnum(enum.IntEnum):
    """An enum with the methods of enums of protocol messages, whose members are ints."""

    @classmethod
    def checked(cls, argument, number):
        """The member of a number, or of itself.

        Raises:
          ValueError: there is none.
        """
        try:
            return cls(number)
        except ValueError:
            raise ValueError(
                f"{argument} must be one of {cls.__name__}.{{{', '.join(cls.keys())}}}, got "
                f"{number!r}"
            ) from None

    @classmethod
    def Name(cls, number):  # noqa: N802 - of protocol messages
        """The name of a number; ValueError: there is none."""
        return cls(number).name

    @classmethod
    def Value(cls, name):  # noqa: N802
        """The number of a name; ValueError: there is none."""
        if name not in cls.__members__:
            raise ValueError(f"{cls.__name__} has no {name!r}, but {cls.keys()}")
        return cls[name]

    @classmethod
    def keys(cls):
        """All names."""
        return list(cls.__members__)

    @classmethod
    def values(cls):
        """All numbers."""
        return list(cls)

    @classmethod
    def items(cls):
        """[(name, number)]"""
        return list(cls.__members__.items())


class StorageType(_ProtocolEnum):
    """Where rows are, tier by tier. API of DeepRec (config_pb2.StorageType).

    The numbers are those of its enum in tensorflow/core/framework/embedding/config.proto; DEFAULT
    is DRAM.
    """

    DEFAULT = 0
    DRAM = 1
    PMEM_MEMKIND = 2
    PMEM_LIBPMEM = 3
    SSDHASH = 4
    LEVELDB = 5
    HBM = 6
    DRAM_PMEM = 11
    DRAM_SSDHASH = 12
    HBM_DRAM = 13
    DRAM_LEVELDB = 14
    DRAM_PMEM_SSDHASH = 101
    HBM_DRAM_SSDHASH = 102


_IN_MEMORY = (StorageType.DEFAULT, StorageType.DRAM, StorageType.HBM)


class CacheStrategy(_ProtocolEnum):
    """What leaves the first tier when it is full. API of DeepRec (config_pb2.CacheStrategy)."""

    LRU = 0
    LFU = 1


class InitializerOption:
    """What rows start as. API of DeepRec.

    Attributes:
      initializer: as of get_embedding_variable, before whose own it comes; None: that one.
      default_value_dim: key k starts as key floormod(k, default_value_dim) does.
      default_value_no_permission: what a key gives that a filter has not admitted.
    """

    def __init__(
        self, initializer=None, default_value_dim=DEFAULT_VALUE_DIM, default_value_no_permission=0.0
    ):
        """Takes the attributes; ValueError: a number out of range."""
        self.initializer = initializer
        self.default_value_dim = checked_count("default_value_dim", default_value_dim, 1)
        self.default_value_no_permission = checked_number(
            "default_value_no_permission", default_value_no_permission
        )


class GlobalStepEvict:
    """When a checkpoint is saved, keys go that no step has trained for more than `steps_to_live`
    steps. API of DeepRec."""

    def __init__(self, steps_to_live=None):
        """None and 0: no key goes. ValueError: no number of steps."""
        if steps_to_live is not None:
            steps_to_live = checked_count("steps_to_live", steps_to_live)
        self.steps_to_live = steps_to_live


class L2WeightEvict:
    """When a checkpoint is saved, keys go of whose row half the squared L2 norm is below
    `l2_weight_threshold`. API of DeepRec."""

    def __init__(self, l2_weight_threshold=-1.0):
        """Without a threshold, which -1 says, too, no key goes.

        Raises:
          ValueError: another one that is not above 0.
        """
        threshold = checked_number("l2_weight_threshold", l2_weight_threshold)
        if threshold <= 0 and threshold != -1.0:
            raise ValueError(
                f"l2_weight_threshold must be above 0, got {l2_weight_threshold}: no key would "
                "go; leave the option out for that"
            )
        self.l2_weight_threshold = threshold


class CounterFilter:
    """A key gets a row when it has come `filter_freq` times in steps that trained; until then
    lookups give InitializerOption's default_value_no_permission. API of DeepRec."""

    def __init__(self, filter_freq=0):
        """0 and 1: at once. ValueError: no number of times."""
        self.filter_freq = checked_count("filter_freq", filter_freq)


class CBFFilter:
    """As CounterFilter, with counts in a counting Bloom filter, whose memory does not grow: up to
    `max_element_size` keys, counts are too high for a part `false_positive_probability` of them.
    Without these two counts are exact. API of DeepRec."""

    def __init__(
        self,
        filter_freq=0,
        max_element_size=0,
        false_positive_probability=-1.0,
        counter_type=tf.uint64,
    ):
        """Takes the attributes.

        Raises:
          ValueError: a number out of range; a false_positive_probability that is not above 0, or
            not below 1; one of it and max_element_size without the other; a counter_type that is no
            integer, or too small for filter_freq.
        """
        filter_freq = checked_count("filter_freq", filter_freq)
        max_element_size = checked_count("max_element_size", max_element_size)
        probability = checked_number("false_positive_probability", false_positive_probability)
        try:
            counter_type = tf.as_dtype(counter_type)
        except TypeError:
            raise ValueError(f"counter_type must be integers, got {counter_type!r}") from None
        if not counter_type.is_integer or filter_freq > counter_type.max:
            raise ValueError(
                f"counter_type must be integers that hold filter_freq {filter_freq}, got "
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


class StorageOption:
    """Where rows are. API of DeepRec. DRAM (the default) and HBM work here."""

    def __init__(
        self,
        storage_type=None,
        storage_path=None,
        storage_size=None,
        cache_strategy=CacheStrategy.LFU,
        layout=None,
    ):
        """Takes the attributes.

        Args:
          storage_type: a StorageType, or its number; None: DRAM.
          storage_path: a folder, for types with SSD or LevelDB.
          storage_size: bytes of each tier, a list of up to four; None and those left out: 1 GiB.
          cache_strategy: a CacheStrategy, or its number.
          layout: kept, and not used.

        Raises:
          ValueError: storage_size is no list of sizes; a path without a type, or an SSD or LevelDB
            type without a path; a number that the enum does not have.
        """
        if storage_type is not None:
            storage_type = StorageType.checked("storage_type", storage_type)
        storage_size = [TIER_BYTES] if storage_size is None else storage_size
        if not isinstance(storage_size, list):
            raise ValueError(f"storage_size must be a list, got {storage_size!r}")
        if len(storage_size) > NUM_TIERS:
            raise ValueError(
                f"storage_size must have a size for each of {NUM_TIERS} tiers at most, got "
                f"{storage_size!r}"
            )
        storage_size = [checked_count("storage_size", size) for size in storage_size]
        needs_path = storage_type is not None and any(
            word in storage_type.name for word in ("SSD", "LEVELDB")
        )
        if storage_path is not None and storage_type is None:
            raise ValueError(f"storage_path {storage_path!r} needs a storage_type")
        if needs_path and storage_path is None:
            raise ValueError(f"the storage type {storage_type.name} needs a storage_path")
        self.storage_type = storage_type
        self.storage_path = storage_path
        self.storage_size = storage_size + [TIER_BYTES] * (NUM_TIERS - len(storage_size))
        self.cache_strategy = CacheStrategy.checked("cache_strategy", cache_strategy)
        self.layout = layout


class CheckpointOption:
    """Which checkpoint a variable starts from. API of DeepRec.

    Attributes:
      ckpt_to_load_from: a file, or a folder with checkpoints, whose rows the variable's initializer
        loads; None: the variable starts empty.
      tensor_name_in_ckpt: the variable's name there; None: its own.
      always_load_from_specific_ckpt, init_data_source: not supported; see check_is_supported.
    """

    def __init__(
        self,
        ckpt_to_load_from=None,
        tensor_name_in_ckpt=None,
        always_load_from_specific_ckpt=False,
        init_data_source=None,
    ):
        """Takes the attributes; ValueError: a file or a name that is no string."""
        self.ckpt_to_load_from = checked_text("ckpt_to_load_from", ckpt_to_load_from)
        self.tensor_name_in_ckpt = checked_text("tensor_name_in_ckpt", tensor_name_in_ckpt)
        self.always_load_from_specific_ckpt = always_load_from_specific_ckpt
        self.init_data_source = init_data_source


class EmbeddingVariableOption:
    """Settings of an EmbeddingVariable. API of DeepRec.

    Attributes:
      ht_type, ht_partition_num: of DeepRec's hash table; nothing here depends on them.
      evict: a GlobalStepEvict or L2WeightEvict.
      ckpt: a CheckpointOption.
      filter_strategy: a CounterFilter or CBFFilter.
      storage_option: a StorageOption.
      init: an InitializerOption.
    """

    def __init__(
        self,
        ht_type="",
        ht_partition_num=1000,
        evict_option=None,
        ckpt=None,
        filter_option=None,
        storage_option=None,
        init_option=None,
    ):
        """Takes the attributes, under other names; None: what the option class makes by default."""
        self.ht_type = ht_type
        self.ht_partition_num = ht_partition_num
        self.evict = evict_option
        self.ckpt = ckpt
        self.filter_strategy = filter_option
        self.storage_option = StorageOption() if storage_option is None else storage_option
        self.init = InitializerOption() if init_option is None else init_option


_KINDS = {  # {argument of EmbeddingVariableOption: (its attribute, the classes of it)}
    "evict_option": ("evict", (GlobalStepEvict, L2WeightEvict, type(None))),
    "ckpt": ("ckpt", (CheckpointOption, type(None))),
    "filter_option": ("filter_strategy", (CounterFilter, CBFFilter, type(None))),
    "storage_option": ("storage_option", (StorageOption,)),
    "init_option": ("init", (InitializerOption,)),
}


def check_is_supported(name, option, steps_to_live=None, init_data_source=None):
    """Refuses settings of another kind, and those that have an effect in DeepRec and none here yet.

    Args:
      name: of the variable.
      option: its EmbeddingVariableOption.
      steps_to_live: of get_embedding_variable; DeepRec's older way to set a GlobalStepEvict.
      init_data_source: of get_embedding_variable.

    Raises:
      ValueError: an option of another class; both a steps_to_live and an L2 threshold evict; a
        steps_to_live below 0.
      NotImplementedError: a storage of several tiers, an init_data_source, or a checkpoint that is
        loaded in the place of one that a saver restores.
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
            f"{name}: rows go by steps_to_live ({steps}) or by l2_weight_threshold ({threshold}), "
            "not by both"
        )
    storage = option.storage_option.storage_type
    if storage not in (None, *_IN_MEMORY):
        _refuse(name, f"the storage type {storage.name} (DRAM and HBM are)")
    if getattr(option.ckpt, "always_load_from_specific_ckpt", False):
        _refuse(name, f"always_load_from_specific_ckpt ({_described(option.ckpt)})")
    init_data_source = init_data_source or getattr(option.ckpt, "init_data_source", None)
    if init_data_source is not None:
        _refuse(name, f"init_data_source ({init_data_source!r})")


def _refuse(name, what):
    raise NotImplementedError(
        f"{name}: sok_compat does not support {what} in embedding variables yet; leave it out to "
        "train without it"
    )


def _described(option):
    given = ", ".join(f"{key}={value!r}" for key, value in vars(option).items())
    return f"{type(option).__name__}: {given}"


NAMES = {
    "CBFFilter": CBFFilter,
    "CacheStrategy": CacheStrategy,
    "CheckpointOption": CheckpointOption,
    "CounterFilter": CounterFilter,
    "EmbeddingVariableOption": EmbeddingVariableOption,
    "GlobalStepEvict": GlobalStepEvict,
    "InitializerOption": InitializerOption,
    "L2WeightEvict": L2WeightEvict,
    "StorageOption": StorageOption,
    "StorageType": StorageType,
}
