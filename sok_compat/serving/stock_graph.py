# SPDX-License-Identifier: Apache-2.0
"""Extracts the served part of a graph, which must have no ops of sok_compat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1

_OF_OURS = "Sok"  # prefix of the types of our ops


class StockGraph:
    """The served part of the default graph, to rebuild in another graph under the same names."""

    def __init__(
        self,
        signatures: dict[str, Any],
        variables: Sequence[tf.Variable],
        saver: tf.compat.v1.train.Saver,
        main_op: tf.Operation,
    ) -> None:
        """Extracts it from the default graph, which is complete.

        Args:
          signatures: {name: SignatureDef}.
          variables: all served variables.
          saver: a tf.train.Saver of them.
          main_op: the op that runs when the model is loaded.

        Raises:
          ValueError: the served part has ops of sok_compat.
        """
        graph_def = tf1.get_default_graph().as_graph_def()
        self._main_op = main_op.name
        self._assets = [each.name for each in tf1.get_collection(tf1.GraphKeys.ASSET_FILEPATHS)]
        self._meta = tf1.MetaGraphDef(saver_def=saver.as_saver_def())
        saved = self._meta.saver_def
        variables = [variable.to_proto() for variable in variables]
        places = [saved.filename_tensor_name, saved.save_tensor_name, saved.restore_op_name]
        places += [self._main_op, *self._assets, *_places_of_signatures(signatures)]
        for each in variables:
            places += [
                each.variable_name,
                each.initializer_name,
                each.initial_value_name,
                each.snapshot_name,
            ]
        nodes = dict.fromkeys(place.partition(":")[0] for place in places if place)
        self._meta.graph_def.CopyFrom(tf1.graph_util.extract_sub_graph(graph_def, list(nodes)))
        _keep_used_functions(self._meta.graph_def)
        _check_has_none_of_ours(self._meta.graph_def)
        in_graph = self._meta.collection_def[tf1.GraphKeys.GLOBAL_VARIABLES].bytes_list.value
        in_graph.extend(each.SerializeToString() for each in variables)

    def build(self) -> tuple[tf.compat.v1.train.Saver, list[tf.Tensor], tf.Operation]:
        """Rebuilds it in the default graph.

        Returns:
          (tf.train.Saver, tensors of asset files, the op that runs when the model is loaded).
        """
        saver = tf1.train.import_meta_graph(self._meta)
        graph = tf1.get_default_graph()
        assets = [graph.get_tensor_by_name(name) for name in self._assets]
        return saver, assets, graph.get_operation_by_name(self._main_op)


def _places_of_signatures(signatures: dict[str, Any]) -> Iterator[str]:
    """Yields the names of the signatures' tensors."""
    for signature in signatures.values():
        for tensor in [*signature.inputs.values(), *signature.outputs.values()]:
            if tensor.WhichOneof("encoding") == "coo_sparse":
                sparse = tensor.coo_sparse
                yield sparse.values_tensor_name
                yield sparse.indices_tensor_name
                yield sparse.dense_shape_tensor_name
            elif tensor.WhichOneof("encoding") == "composite_tensor":
                yield from (each.name for each in tensor.composite_tensor.components)
            else:
                yield tensor.name


def _keep_used_functions(graph_def: tf.compat.v1.GraphDef) -> None:
    """Drops unused functions, which may have ops that cannot be served."""
    functions = {each.signature.name: each for each in graph_def.library.function}
    used, nodes = {}, list(graph_def.node)
    while nodes:
        for name in _functions_of(nodes.pop()):
            if name in functions and name not in used:
                used[name] = functions[name]
                nodes += functions[name].node_def
    kept = [function.SerializeToString() for function in used.values()]
    del graph_def.library.function[:]
    del graph_def.library.gradient[:]
    for each in kept:
        graph_def.library.function.add().ParseFromString(each)


def _functions_of(node: tf.compat.v1.NodeDef) -> Iterator[str]:
    yield node.op
    for value in node.attr.values():
        yield value.func.name
        yield from (each.name for each in value.list.func)


def _check_has_none_of_ours(graph_def: tf.compat.v1.GraphDef) -> None:
    nodes = list(graph_def.node)
    for function in graph_def.library.function:
        nodes += function.node_def
    ours = [f"{node.name} ({node.op})" for node in nodes if node.op.startswith(_OF_OURS)]
    if ours:
        raise ValueError(
            f"with stock_ops the outputs must need no ops of sok_compat other than lookups, got "
            f"{ours[:3]}: leave them out of the result of build, or give stock_ops=False"
        )
