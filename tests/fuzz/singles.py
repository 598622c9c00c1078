# SPDX-License-Identifier: Apache-2.0
"""Every wrong argument, wrong call and faulty batch once, on layers that are right otherwise."""

import itertools

from tests.fuzz import batches, values
from tests.fuzz.cases import DENSE_ONLY, SPARSE_ONLY, Call, Case, LayerCase

_GOOD = [[1], [0, 2], [], [2, 1]]


def cases():
    """Yields the Cases."""
    layers = list(_right_layers())
    for layer in (layers[0], layers[-1]):  # one of each kind
        yield from _wrong_arguments(layer)
        for name in batches.wrong_calls_of(layer):
            yield Case(layer, False, name, [])
    for layer in layers:
        for fault in batches.faults_of(layer):
            for action in ("train", "read"):
                yield Case(layer, False, "", [_call(layer, action, fault), _call(layer, "train")])


def _right_layers():
    key_dtype = "int64"
    for is_sparse, use_hashtable in itertools.product((True, False), (True, False)):
        for is_dynamic in (False,) if is_sparse else (False, True):
            arguments = {
                "max_vocabulary_size_per_gpu": 6,
                "embedding_vec_size": 3,
                "slot_num": 2,
                "use_hashtable": use_hashtable,
                "key_dtype": key_dtype,
                **(
                    {"combiner": "mean", "max_nnz": 2}
                    if is_sparse
                    else {"nnz_per_slot": 2, "dynamic_input": is_dynamic}
                ),
            }
            yield LayerCase(
                is_sparse, arguments, (), "mean", 6, 3, 2, 2, is_dynamic, use_hashtable, key_dtype,
                values.FIRST_VALUES[0], "float32", None,
            )  # fmt: skip


def _wrong_arguments(layer):
    others = DENSE_ONLY if layer.is_sparse else SPARSE_ONLY
    for name in (name for name in values.WRONG if name not in others):
        for value in values.WRONG[name]:
            arguments = {**layer.arguments, name: value}
            if value is values.ABSENT:
                del arguments[name]
            fields = {**vars(layer), "arguments": arguments, "wrong": (name,)}
            yield Case(LayerCase(**fields), False, "", [])


def _call(layer, action, fault=""):
    bags = _GOOD if layer.is_sparse else [[key] for key in (3, 1, 3, 0)]
    return Call(action, bags, fault)
