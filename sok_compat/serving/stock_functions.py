# SPDX-License-Identifier: Apache-2.0
"""Replaces our ops for ordinary variables in a SavedModel by functions of TensorFlow's ops, so that
a server without sok_compat can load it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf import text_format

from sok_compat.lookup.pooling import pool_rows
from sok_compat.runtime.tf_versions import saved_model_pb2
from sok_compat.serving import stock_updates

tf1 = tf.compat.v1
SavedModel = saved_model_pb2.SavedModel


def use_stock_functions(folder: str | os.PathLike[str] | bytes) -> None:
    """Replaces the nodes of a SavedModel's graphs whose ops are listed in _FUNCTIONS or update an
    ordinary variable.

    A node becomes a call of a function with the same inputs and outputs, an update some nodes. A
    graph with other ops of ours, such as those of tables, needs sok_compat anyway, and stays as it
    is.
    """
    for name, read, write in (
        ("saved_model.pb", SavedModel.FromString, SavedModel.SerializeToString),
        (
            "saved_model.pbtxt",
            lambda content: text_format.Parse(content.decode(), SavedModel()),
            lambda model: text_format.MessageToString(model).encode(),
        ),
    ):
        path = Path(os.fsdecode(folder), name)
        if path.exists():
            model = read(path.read_bytes())
            if any([_replace_nodes(graph) for graph in model.meta_graphs]):
                path.write_bytes(write(model))


def _replace_nodes(meta_graph):
    """Whether nodes have been replaced."""
    graph_def = meta_graph.graph_def
    nodes = [node for node in graph_def.node if node.op.startswith("Sok")]
    if not all(node.op in _FUNCTIONS or node.op in stock_updates.OPS for node in nodes):
        return False
    functions = {}  # by what determines them: equal nodes share one
    for node in nodes:
        if node.op in stock_updates.OPS:
            stock_updates.replace_update(graph_def, node)
            continue
        attributes = {name: value for name, value in node.attr.items() if name[0] != "_"}
        kind = f"{node.op} {sorted((k, v.SerializeToString()) for k, v in attributes.items())}"
        if kind not in functions:
            functions[kind] = _function(f"{node.op}_{len(functions)}", node.op, attributes)
            graph_def.library.function.append(functions[kind])
        _call(node, functions[kind])
    listed = meta_graph.meta_info_def.stripped_op_list.op
    kept = [op for op in listed if not op.name.startswith("Sok")]
    del listed[:]
    listed.extend(kept)
    return bool(nodes)


def _function(name, op, attributes):
    """The FunctionDef of TensorFlow's ops that does what the op does with these attributes."""
    types, compute = _FUNCTIONS[op](_Attributes(attributes))
    with tf.Graph().as_default():
        signature = [tf.TensorSpec(None, dtype) for dtype in types]
        traced = tf.function(compute, input_signature=signature, autograph=False)
        function = traced.get_concrete_function().function_def
    function.signature.name = name
    return function


def _call(node, function):
    stock_updates.change_op(node, "PartitionedCall")
    node.attr["f"].func.name = function.signature.name
    for name, arguments in (("Tin", "input_arg"), ("Tout", "output_arg")):
        types = [argument.type for argument in getattr(function.signature, arguments)]
        node.attr[name].list.type.extend(types)


class _Attributes:
    """Attributes of a node; one that is a list has a value for each of the N items."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    @property
    def number(self) -> int:
        """Number of items."""
        return self._values["N"].i

    def integers(self, name: str) -> list[int]:
        return list(self._values[name].list.i)

    def types(self, name: str) -> list[tf.DType]:
        return [tf.as_dtype(each) for each in self._values[name].list.type]

    def combiners(self) -> list[str]:
        return [each.decode() for each in self._values["combiners"].list.s]


def _in_lists(tensors: Sequence[Any], number: int) -> Iterable[tuple[Any, ...]]:
    """The arguments of each item: `tensors` holds those of all items, argument by argument."""
    return zip(*(tensors[at : at + number] for at in range(0, len(tensors), number)))


def _by_argument(results: Iterable[Sequence[Any]]) -> list[Any]:
    """The results of all items, argument by argument."""
    return [each for argument in zip(*results) for each in argument]


_Made = tuple[list[tf.DType], Callable[..., Any]]  # (types of the inputs, function)


def _column_keys(given: _Attributes) -> _Made:
    types = given.types("Tfeatures")

    def keys_of(feature, num_buckets):
        values = tf.reshape(feature, [tf.shape(feature)[0], -1])
        if values.dtype == tf.string:
            is_value = tf.not_equal(values, "")
        else:
            is_value = tf.not_equal(values, -1) if num_buckets else values >= 0
        kept = tf.boolean_mask(values, is_value)
        if not num_buckets:
            keys = tf.cast(kept, tf.int64)
        else:
            text = kept if kept.dtype == tf.string else tf.strings.as_string(kept)
            keys = tf.strings.to_hash_bucket_fast(text, num_buckets)
        sizes = tf.reduce_sum(tf.cast(is_value, tf.int64), axis=1)
        return keys, tf.concat([[0], tf.cumsum(sizes)], 0)

    def compute(*inputs):  # features, then masks, which only graphs with tables use
        return _by_argument(map(keys_of, inputs[: len(types)], given.integers("num_buckets")))

    return types + [tf.int32] * len(types), compute


def _row_splits(given: _Attributes) -> _Made:
    number = given.number

    # Not split_sparse: its assertions are functions, which the graph's library would lack.
    def splits_of(indices, dense_shape):
        rows = indices[:, 0]
        sizes = tf.math.segment_sum(tf.ones_like(rows), rows)  # fails unless they ascend
        num_empty = dense_shape[0] - tf.size(sizes, tf.int64)  # after the last key
        return tf.concat([[0], tf.cumsum(tf.pad(sizes, [[0, num_empty]]))], 0)

    def compute(*inputs):
        return [splits_of(*item) for item in _in_lists(inputs[: 2 * number], number)]

    return [tf.int64] * (2 * number) + given.types("Tvalues"), compute


def _checked_splits(given: _Attributes) -> _Made:
    number = given.number
    types = given.types("Tsplits") + given.types("Tvalues")
    return types, lambda *inputs: [tf.cast(splits, tf.int64) for splits in inputs[:number]]


def _checked_weights(given: _Attributes) -> _Made:
    number = given.number
    types = [*[tf.float32] * number, *[tf.int64] * (4 * number)]
    return types, lambda *inputs: [tf.identity(weights) for weights in inputs[:number]]


def _distinct_keys(given: _Attributes) -> _Made:
    types = given.types("Tkeys")

    def distinct(keys):
        found = tf.unique(tf.cast(keys, tf.int64))
        return found.y, found.idx

    return types, lambda *keys: _by_argument(map(distinct, keys))


def _pool_received_rows(given: _Attributes) -> _Made:
    number, combiners = given.number, given.combiners()
    types = [tf.float32, tf.int32, tf.int64, tf.float32, tf.float32]

    def compute(*inputs):
        return [
            pool_rows(tf.gather(rows, inverse), row_splits, combiner)
            for combiner, (rows, inverse, row_splits, *_) in zip(
                combiners, _in_lists(inputs, number)
            )
        ]

    return [dtype for dtype in types for _ in range(number)], compute


def _merge_gradients(given: _Attributes) -> _Made:
    number, combiners = given.number, given.combiners()
    counted = given.types("Tcounted")
    types = [*[tf.float32] * number, *counted, *[tf.int32] * number, *[tf.int64] * number]
    types += [tf.float32] * (2 * number)

    def merged(combiner, gradients, counted, inverse, row_splits, *_):
        if combiner == "mean":
            sizes = tf.cast(row_splits[1:] - row_splits[:-1], tf.float32)
            gradients = tf.math.divide_no_nan(gradients, sizes[:, tf.newaxis])
        of_occurrences = tf.gather(gradients, tf.ragged.row_splits_to_segment_ids(row_splits))
        return tf.math.unsorted_segment_sum(of_occurrences, inverse, tf.shape(counted)[0])

    def compute(*inputs):
        return [
            merged(combiner, *item) for combiner, item in zip(combiners, _in_lists(inputs, number))
        ]

    return types, compute


_FUNCTIONS: dict[str, Callable[[_Attributes], _Made]] = {
    "SokColumnKeys": _column_keys,
    "SokRowSplits": _row_splits,
    "SokCheckedSplits": _checked_splits,
    "SokCheckedWeights": _checked_weights,
    "SokDistinctKeys": _distinct_keys,
    "SokPoolReceivedRows": _pool_received_rows,
    "SokMergeGradients": _merge_gradients,
}
