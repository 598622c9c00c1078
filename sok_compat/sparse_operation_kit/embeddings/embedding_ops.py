# SPDX-License-Identifier: Apache-2.0
"""The lookups of both layers, by the table that is read."""

import tensorflow as tf

from sok_compat.lookup.bags_of_keys import BagsOfKeys, split_bags
from sok_compat.lookup.group import Lookup, lookup_group
from sok_compat.lookup.keys import checked_keys, in_shape_of
from sok_compat.runtime.ranks import horovod_ranks
from sok_compat.runtime.strategies import raise_under_several_replicas
from sok_compat.runtime.tf_versions import Variable, constant_value
from sok_compat.sparse_operation_kit.core.embedding_layer_handle import (
    DenseEmbeddingLayerHandle,
    SparseEmbeddingLayerHandle,
)
from sok_compat.sparse_operation_kit.embeddings.arguments import checked_flag

__all__ = [
    "_get_comm_tool",
    "embedding_lookup",
    "embedding_lookup_sparse",
    "get_global_replica_id",
]


@tf.autograph.experimental.do_not_convert
def embedding_lookup(embedding_variable, values, training=True, dynamic_input=False):
    """The row of each key. API of SparseOperationKit 1.x; what All2AllDenseEmbedding calls.

    Args:
      embedding_variable: the EmbeddingVariable; its embedding_layer is a DenseEmbeddingLayerHandle.
      values: keys of any shape, as [batch, slot_num, nnz_per_slot], [batch, slots] or [n], in the
        table's key_dtype, or int32 for int64.
      training: bool or scalar bool tensor; None is True. False: unknown keys give their first value
        and are not inserted.
      dynamic_input: False: values that are known to have rank 3 must be [batch, slot_num,
        nnz_per_slot].

    Returns:
      The shape of values and dim after it, in the handle's compute_dtype.

    Raises:
      RuntimeError: the table is one of another graph, or of eager mode.
      TypeError: values are no dense tensor, or the table's handle is one of pooling lookups.
      ValueError: the table has no handle, or dtype or static shape of values do not fit.
      tf.errors.InvalidArgumentError: when run: the shape does not fit, a key is out of range
        without a hash table.
      tf.errors.ResourceExhaustedError: when run: the table is full; what it held is intact.
    """
    layer = _layer_of(embedding_variable, DenseEmbeddingLayerHandle, "embedding_lookup")
    keys = checked_keys(embedding_variable, _as_dense(layer, values), layer.layer_name)
    keys = _checked_shape(layer, keys, dynamic_input)
    flat_keys = tf.reshape(keys, [-1])
    (rows,) = lookup_group(
        [Lookup(embedding_variable, flat_keys)], _checked_training(layer, training)
    )
    return _in_compute_dtype(layer, in_shape_of(keys, rows, embedding_variable.shape[1]))


@tf.autograph.experimental.do_not_convert
def embedding_lookup_sparse(embedding_variable, sp_ids, slot_num, training=True):
    """The pooled rows of each slot. API of SparseOperationKit 1.x; what DistributedEmbedding calls.

    Args:
      embedding_variable: the EmbeddingVariable; its embedding_layer is a
        SparseEmbeddingLayerHandle, which has max_nnz and the combiner.
      sp_ids: keys in the table's key_dtype, or int32 for int64: tf.SparseTensor
        [batch * slot_num, max_nnz] in row order (row = sample * slot_num + slot), or
        tf.RaggedTensor [batch * slot_num, (keys)] or [batch, slot_num, (keys)].
      slot_num: slots of a sample.
      training: as of `embedding_lookup`.

    Returns:
      [batch, slot_num, dim] in the handle's compute_dtype; slots without keys are zeros.

    Raises:
      RuntimeError: the table is one of another graph, or of eager mode.
      TypeError: sp_ids is neither a SparseTensor nor a RaggedTensor, or the table's handle is one
        of lookups without pooling.
      ValueError: the table has no handle, or dtype or rank of sp_ids do not fit.
      tf.errors.InvalidArgumentError: when run: rows that are no multiple of slot_num, unsorted
        rows, more than max_nnz keys in a row, a key out of range without a hash table.
      tf.errors.ResourceExhaustedError: when run: the table is full; what it held is intact.
    """
    layer = _layer_of(embedding_variable, SparseEmbeddingLayerHandle, "embedding_lookup_sparse")
    with tf.device(embedding_variable.device):
        (split,) = split_bags([BagsOfKeys(sp_ids, layer.layer_name, slot_num, layer.max_nnz)])
    keys = checked_keys(embedding_variable, split.keys, layer.layer_name)
    lookup = Lookup(embedding_variable, keys, split.row_splits, layer.combiner)
    (pooled,) = lookup_group([lookup], _checked_training(layer, training))
    output = tf.reshape(pooled, [-1, slot_num, embedding_variable.shape[1]])
    return _in_compute_dtype(layer, output)


def _layer_of(variable, kind, function):
    layer = variable.embedding_layer
    if not isinstance(layer, kind):
        raise TypeError(
            f"{function} reads tables with a {kind.__name__}, but {variable.m_var_name} has a "
            f"{type(layer).__name__}"
        )
    _raise_if_made_elsewhere(layer)
    return layer


def _raise_if_made_elsewhere(layer):
    """TensorFlow's own errors speak of captured tensors."""
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
    """Keys of another rank are in no slots, or each is in one: they can be of any number."""
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
    """`training` as a bool, or as a scalar bool tensor where it is not known before the step.

    None is the default, True.

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
    """The output, cast where a mixed-precision policy asks for it; the table stays float32."""
    dtype = layer.compute_dtype
    return output if dtype == tf.float32 else tf.cast(output, dtype)


def get_global_replica_id(comm_tool=None, var=None):
    """The rank of this process, from 0. API of SparseOperationKit 1.x.

    Args:
      comm_tool: what `_get_comm_tool` returns.
      var: ignored.

    Raises:
      RuntimeError: comm_tool is none that works here, or a strategy has several replicas.
    """
    del var
    if comm_tool == "Strategy":
        raise_under_several_replicas("get_global_replica_id")
        return 0
    if comm_tool == "OneDevice":
        return 0
    ranks = horovod_ranks()
    if comm_tool == "Horovod" and ranks is not None:
        return ranks.rank
    raise RuntimeError(
        "ranks come from Horovod only ('Horovod' after hvd.init(), else 'OneDevice', or 'Strategy' "
        "in the scope of a strategy of one replica), got "
        f"{comm_tool!r}; pass what _get_comm_tool() returns"
    )


def _get_comm_tool():
    """'Horovod' after hvd.init(), 'Strategy' in a tf.distribute strategy, else 'OneDevice'."""
    if horovod_ranks() is not None:
        return "Horovod"
    return "Strategy" if tf.distribute.has_strategy() else "OneDevice"
