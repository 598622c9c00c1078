# SPDX-License-Identifier: Apache-2.0
"""The lookups of both layers as functions of the table."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from sok_compat.lookup.bags_of_keys import BagsOfKeys, split_bags
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.keys import checked_keys, in_shape_of
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.ranks.current_job import active_job
from sok_compat.runtime.checked_values import checked_count
from sok_compat.runtime.strategies import raise_under_several_replicas
from sok_compat.runtime.tf_versions import Variable, constant_value
from sok_compat.sparse_operation_kit.core.embedding_layer_handle import (
    DenseEmbeddingLayerHandle,
    SparseEmbeddingLayerHandle,
)
from sok_compat.sparse_operation_kit.core.embedding_variable import EmbeddingVariable
from sok_compat.sparse_operation_kit.embeddings.arguments import checked_flag

__all__ = [
    "_get_comm_tool",
    "embedding_lookup",
    "embedding_lookup_sparse",
    "get_global_replica_id",
]


@tf.autograph.experimental.do_not_convert
def embedding_lookup(
    embedding_variable: EmbeddingVariable,
    values: tf.Tensor,
    training: bool | tf.Tensor | None = True,
    dynamic_input: bool = False,
) -> tf.Tensor:
    """Looks up the row of each key; called by All2AllDenseEmbedding.

    API of SparseOperationKit 1.x.

    Args:
      embedding_variable: the EmbeddingVariable; its embedding_layer is a DenseEmbeddingLayerHandle.
      values: keys of any shape, such as [batch, slot_num, nnz_per_slot], [batch, slots] or [n], in
        the table's key_dtype, or int32 for int64.
      training: bool or scalar bool tensor; None is True. False: unknown keys give their first value
        and are not inserted.
      dynamic_input: False: values of static rank 3 must be [batch, slot_num, nnz_per_slot].

    Returns:
      [*shape of values, dim] in the handle's compute_dtype.

    Raises:
      RuntimeError: the table belongs to another graph, or to eager mode.
      TypeError: values is not a dense tensor, or the table's handle is for pooling lookups.
      ValueError: the table has no handle, or the dtype or static shape of values does not fit.
      tf.errors.InvalidArgumentError: when run: the shape does not fit, or a key is out of range
        without a hash table.
      tf.errors.ResourceExhaustedError: when run: the table is full; its contents are intact.
    """
    layer = _layer_of(embedding_variable, DenseEmbeddingLayerHandle, "embedding_lookup")
    keys = checked_keys(embedding_variable, _as_dense(layer, values), layer.layer_name)
    is_dynamic = checked_flag(f"{layer.layer_name}: dynamic_input", dynamic_input)
    keys = _checked_shape(layer, keys, is_dynamic)
    flat_keys = tf.reshape(keys, [-1])
    (rows,) = lookup_group(
        [Lookup(embedding_variable, flat_keys)], _checked_training(layer, training)
    )
    return _in_compute_dtype(layer, in_shape_of(keys, rows, embedding_variable.shape[1]))


@tf.autograph.experimental.do_not_convert
def embedding_lookup_sparse(
    embedding_variable: EmbeddingVariable,
    sp_ids: tf.SparseTensor | tf.RaggedTensor,
    slot_num: int,
    training: bool | tf.Tensor | None = True,
) -> tf.Tensor:
    """Looks up and pools the rows of each slot; called by DistributedEmbedding.

    API of SparseOperationKit 1.x.

    Args:
      embedding_variable: the EmbeddingVariable; its embedding_layer is a
        SparseEmbeddingLayerHandle, which has max_nnz and the combiner.
      sp_ids: keys in the table's key_dtype, or int32 for int64: tf.SparseTensor
        [batch * slot_num, max_nnz] in row order (row = sample * slot_num + slot), or
        tf.RaggedTensor [batch * slot_num, (keys)] or [batch, slot_num, (keys)].
      slot_num: slots of a sample.
      training: see `embedding_lookup`.

    Returns:
      [batch, slot_num, dim] in the handle's compute_dtype; slots without keys are zeros.

    Raises:
      RuntimeError: the table belongs to another graph, or to eager mode.
      TypeError: sp_ids is neither a SparseTensor nor a RaggedTensor, or the table's handle is for
        lookups without pooling.
      ValueError: the table has no handle, or the dtype or rank of sp_ids does not fit.
      tf.errors.InvalidArgumentError: when run: the number of rows is not a multiple of slot_num,
        rows are not sorted, a row has more than max_nnz keys, or a key is out of range without a
        hash table.
      tf.errors.ResourceExhaustedError: when run: the table is full; its contents are intact.
    """
    layer = _layer_of(embedding_variable, SparseEmbeddingLayerHandle, "embedding_lookup_sparse")
    slot_num = checked_count(f"{layer.layer_name}: slot_num", slot_num, 1)
    with tf.device(embedding_variable.device):
        if not isinstance(sp_ids, (tf.SparseTensor, tf.RaggedTensor)):
            raise TypeError(
                f"{layer.layer_name}: sp_ids must be SparseTensor or RaggedTensor, got "
                f"{type(sp_ids).__name__} (All2AllDenseEmbedding takes dense tensors)"
            )
        bags = BagsOfKeys(
            sp_ids, layer.layer_name, slot_num, layer.max_nnz, name_of_number="slot_num"
        )
        (split,) = split_bags([bags])
    keys = checked_keys(embedding_variable, split.keys, layer.layer_name)
    lookup = Lookup(embedding_variable, keys, split.row_splits, layer.combiner)
    (pooled,) = lookup_group([lookup], _checked_training(layer, training))
    output = tf.reshape(pooled, [-1, slot_num, embedding_variable.shape[1]])
    return _in_compute_dtype(layer, output)


def _layer_of(variable, kind, function):
    layer = getattr(variable, "embedding_layer", None)
    if layer is None:
        raise TypeError(f"{function} reads the table of a layer, got {variable!r}")
    if not isinstance(layer, kind):
        raise TypeError(
            f"{function} reads tables with a {kind.__name__}, but {variable.m_var_name} has a "
            f"{type(layer).__name__}"
        )
    _raise_if_made_elsewhere(layer)
    return layer


def _raise_if_made_elsewhere(layer):
    """Checks the graph early, since TensorFlow's own errors speak of captured tensors."""
    handle = layer.embedding_variable.emb_handle
    made_in = handle.graph if tf.is_symbolic_tensor(handle) else None
    with tf.init_scope():  # as where tables are made
        used_in = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    if made_in is not used_in:
        modes = ["eager mode" if graph is None else "a graph" for graph in (made_in, used_in)]
        where = (
            " and used in ".join(modes)
            if None in (made_in, used_in)
            else ("one graph and used in another")
        )
        raise RuntimeError(
            f"the table of {layer.layer_name} was made in {where}: make the layer where it is "
            "used, after sok.Init there"
        )


def _as_dense(layer, values):
    try:
        if isinstance(values, (tf.SparseTensor, tf.RaggedTensor)):
            raise TypeError("pool its rows with DistributedEmbedding")
        return tf.convert_to_tensor(values)
    except (TypeError, ValueError, tf.errors.InvalidArgumentError) as error:
        raise TypeError(
            f"{layer.layer_name}: inputs must be a dense tensor of keys, got "
            f"{type(values).__name__}: {error}"
        ) from error


def _checked_shape(layer, keys, dynamic_input):
    """Checks keys of rank 3; keys of other ranks may have any shape."""
    if dynamic_input or keys.shape.rank != 3:
        return keys
    expected = [None, layer.slot_num, layer.nnz_per_slot]
    if not keys.shape.is_compatible_with(expected):
        raise ValueError(
            f"{layer.layer_name}: keys of rank 3 must have shape [batch, slot_num, nnz_per_slot] = "
            f"[batch, {layer.slot_num}, {layer.nnz_per_slot}], got {keys.shape}; "
            "dynamic_input=True takes any"
        )
    return keys if keys.shape[1:].is_fully_defined() else tf.ensure_shape(keys, expected)


def _checked_training(layer, training):
    """`training` as a bool, or as a scalar bool tensor if it is unknown before the step.

    None means True, the default.

    Raises:
      ValueError: it is neither a bool nor a tensor.
    """
    if training is None:
        return True
    if not isinstance(training, (tf.Tensor, Variable)):
        return checked_flag(f"{layer.layer_name}: training", training)
    training = tf.cast(training, tf.bool)
    if not tf.is_symbolic_tensor(training):
        return bool(training)
    value = constant_value(training)
    return training if value is None else bool(value)


def _in_compute_dtype(layer, output):
    """The output, cast if a mixed-precision policy requires it; the table stays float32."""
    dtype = layer.compute_dtype
    return output if dtype == tf.float32 else tf.cast(output, dtype)


def get_global_replica_id(comm_tool: str | None = None, var: Any = None) -> int:
    """Returns the rank of this process, from 0. API of SparseOperationKit 1.x.

    Args:
      comm_tool: the result of `_get_comm_tool`.
      var: ignored.

    Raises:
      RuntimeError: comm_tool does not work here, or a strategy has several replicas.
    """
    del var
    if comm_tool == "Strategy":
        raise_under_several_replicas("get_global_replica_id")
        return 0
    if comm_tool == "OneDevice":
        return 0
    job = active_job()
    if comm_tool == "Horovod" and job.is_initialized:
        return job.rank()
    raise RuntimeError(
        "ranks come from Horovod only ('Horovod' after hvd.init(), else 'OneDevice', or 'Strategy' "
        "in the scope of a strategy of one replica), got "
        f"{comm_tool!r}; pass what _get_comm_tool() returns"
    )


def _get_comm_tool() -> str:
    """Returns 'Horovod' after hvd.init(), 'Strategy' in a tf.distribute one, else 'OneDevice'.

    API of SparseOperationKit 1.x.
    """
    if active_job().is_initialized:
        return "Horovod"
    return "Strategy" if tf.distribute.has_strategy() else "OneDevice"
