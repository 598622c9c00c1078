# SPDX-License-Identifier: Apache-2.0
"""What a case is, and how hypothesis makes one up."""

import dataclasses
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.fuzz import values

SPARSE_ONLY = ("combiner", "max_nnz", "max_feature_num")
DENSE_ONLY = ("nnz_per_slot", "dynamic_input")
DEVICES = (None, "/CPU:0", "/job:localhost/replica:0/task:0/device:CPU:0", "/GPU:0")
HUGE_CAPACITY = 2**33  # reserves much more than the machine has


@dataclasses.dataclass(frozen=True)
class LayerCase:
    """One layer: what is given to its constructor, and what it means."""

    is_sparse: bool
    arguments: dict  # of the constructor
    wrong: tuple  # names of those that are wrong; the other fields hold for a right layer
    combiner: str
    capacity: int
    dim: int
    slot_num: int
    keys_per_slot: int  # most (sparse), or exactly
    is_dynamic: bool
    use_hashtable: bool
    key_dtype: str
    first_values: values.FirstValues = dataclasses.field(repr=False)
    output_dtype: str
    device: Any  # of the calls


@dataclasses.dataclass(frozen=True)
class Call:
    """One run of the layer: `keys` by bag (dense: one bag a key), and how they are spoilt."""

    action: str  # 'train': insert and update, 'insert', or 'read'
    bags: list
    fault: str  # of batches.FAULTS, or ""


@dataclasses.dataclass(frozen=True)
class Case:
    """One example of the fuzzer."""

    layer: LayerCase
    training: Any  # what the reading call is given for False
    wrong_call: str  # of batches.WRONG_CALLS, or ""
    calls: list


def _sizes(most):
    small = st.integers(1, most)
    return st.one_of(small, small, small.map(np.int64), small.map(np.int32), small.map(np.array))


@st.composite
def layer_cases(draw):
    """A LayerCase; two of five have a wrong argument or two."""
    is_sparse = draw(st.booleans())
    combiner, key_dtype = (
        draw(st.sampled_from(["sum", "mean"])),
        draw(st.sampled_from(list(values.KEY_DTYPES))),
    )
    capacity = draw(st.one_of(_sizes(12), _sizes(12), st.sampled_from([10**6, HUGE_CAPACITY])))
    dim, slot_num, keys_per_slot = draw(_sizes(9)), draw(_sizes(4)), draw(_sizes(4))
    if draw(st.integers(0, 9)) == 0:
        dim = draw(_sizes(values.DIM_LIMIT))
    use_hashtable, is_dynamic = draw(st.booleans()), draw(st.booleans()) and not is_sparse
    first_values = draw(st.sampled_from(values.FIRST_VALUES))
    if capacity <= 12 and draw(st.integers(0, 4)) == 0:
        first_values = values.PRESET
    elif not use_hashtable and isinstance(first_values.initializer, values.Made):
        first_values = values.FIRST_VALUES[0]  # some are run for the whole table: it may be huge
    output_dtype = draw(st.sampled_from(["float32"] * 6 + list(values.DTYPES)))
    arguments = {
        "max_vocabulary_size_per_gpu": capacity,
        "embedding_vec_size": dim,
        "slot_num": slot_num,
        "use_hashtable": draw(st.sampled_from(values.FLAGS[use_hashtable])),
        "key_dtype": draw(st.sampled_from(values.KEY_DTYPES[key_dtype])),
        "embedding_initializer": first_values.initializer,
    }
    if is_sparse:
        spelt = draw(st.sampled_from([combiner, combiner.upper(), combiner.title()]))
        most = int(slot_num) * int(keys_per_slot)
        arguments.update(combiner=spelt, max_nnz=keys_per_slot)
        if draw(st.booleans()):
            arguments["max_feature_num"] = draw(st.integers(1, most))
    else:
        arguments["nnz_per_slot"] = keys_per_slot
        if is_dynamic or draw(st.booleans()):
            arguments["dynamic_input"] = draw(st.sampled_from(values.FLAGS[is_dynamic]))
    if output_dtype != "float32" or draw(st.booleans()):
        arguments["dtype"] = output_dtype
    if draw(st.booleans()):
        arguments["name"] = draw(st.sampled_from([None, "layer", "A1", "a.b-c/d", ".x", "0_"]))
    if draw(st.booleans()):
        arguments["trainable"] = draw(st.booleans())
    wrong = draw(_wrong_arguments(is_sparse))
    for name in wrong:
        arguments[name] = draw(st.sampled_from(values.WRONG[name]))
    return LayerCase(
        is_sparse, {k: v for k, v in arguments.items() if v is not values.ABSENT}, wrong, combiner,
        int(capacity), int(dim), int(slot_num), int(keys_per_slot), is_dynamic, use_hashtable,
        key_dtype, first_values, output_dtype, draw(st.sampled_from(DEVICES)),
    )  # fmt: skip


def _wrong_arguments(is_sparse):
    names = [
        name for name in values.WRONG if name not in (DENSE_ONLY if is_sparse else SPARSE_ONLY)
    ]
    some = st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True).map(tuple)
    return st.one_of(st.just(()), st.just(()), st.just(()), some, some)


def _keys(layer):
    """Keys of which some come again and again, and some are extreme."""
    limits = np.iinfo(layer.key_dtype)
    if not layer.use_hashtable:
        last = min(layer.capacity - 1, limits.max)  # a range may be larger than that of its keys
        return st.one_of(st.integers(0, min(layer.capacity, 15) - 1), st.just(last))
    extremes = [limits.min, limits.max, limits.max - 1, 2**31, 2**32 - 1]
    few = st.integers(0, 7)
    return st.one_of(few, few, st.sampled_from(extremes), st.integers(limits.min, limits.max))


@st.composite
def calls(draw, layer):
    """A Call; a third of them with a fault."""
    from tests.fuzz import batches

    batch_size = draw(st.integers(0, 4))
    if layer.is_sparse:
        num_bags, fewest, most = batch_size * layer.slot_num, 0, layer.keys_per_slot
    else:
        per_sample = 1 if layer.is_dynamic else layer.slot_num * layer.keys_per_slot
        num_bags, fewest, most = batch_size * per_sample, 1, 1
    bag = st.lists(_keys(layer), min_size=fewest, max_size=most)
    bags = draw(st.lists(bag, min_size=num_bags, max_size=num_bags))
    fault = ""
    if draw(st.integers(0, 2)) == 0:
        fault = draw(st.sampled_from(batches.faults_of(layer)))
    return Call(draw(st.sampled_from(["train", "train", "insert", "read"])), bags, fault)


@st.composite
def cases(draw):
    """A Case."""
    from tests.fuzz import batches

    layer = draw(layer_cases())
    if layer.wrong:
        return Case(layer, False, "", [])
    wrong_call = ""
    if draw(st.integers(0, 2)) == 0:
        wrong_call = draw(st.sampled_from(list(batches.wrong_calls_of(layer))))
    return Case(
        layer,
        draw(st.sampled_from(values.FLAGS[False])),
        wrong_call,
        draw(st.lists(calls(layer), min_size=1, max_size=5)),
    )
