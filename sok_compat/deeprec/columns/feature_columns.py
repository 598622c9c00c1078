# SPDX-License-Identifier: Apache-2.0
"""`feature_column`: columns of embedding variables, and groups of columns that are one lookup.

All columns but those of embedding variables are TensorFlow's own; those of a group are marked.
"""

import contextlib
import contextvars
import functools
import itertools
import re
import sys

import tensorflow as tf

from sok_compat.deeprec.columns.embedding_columns import (
    CategoricalColumnWithEmbedding,
    ColumnLookup,
    EmbeddingVariableColumn,
    SharedEmbeddingVariableColumn,
    may_be_grouped,
    source_of,
)
from sok_compat.deeprec.lookups.group_lookup import group_embedding_lookup_sparse
from sok_compat.deeprec.variables.embedding_variable import KEY_DTYPES
from sok_compat.runtime.tf_versions import feature_columns as stock
from sok_compat.runtime.tf_versions import silence_deprecation

tf1 = tf.compat.v1

_group = contextvars.ContextVar("_group", default=None)  # of columns made now: its name
_COMBINERS = ("mean", "sqrtn", "sum")
_numbers = itertools.count()  # of scopes without a name


def _of_tensorflow(function):
    """Raises, when called, where TensorFlow does not have what columns are made of; what it does
    have is deprecated, of which scripts need not hear with each call."""

    @functools.wraps(function)
    def checked(*args, **kwargs):
        if stock.missing is not None:
            raise NotImplementedError(
                f"tf.feature_column.{function.__name__}: TensorFlow {tf.__version__} does not have "
                f"what sok_compat makes feature columns of: {stock.missing}"
            )
        with silence_deprecation():
            return function(*args, **kwargs)

    return checked


@_of_tensorflow
@contextlib.contextmanager
def group_embedding_column_scope(name=None, params_num_per_group=sys.maxsize):
    """Embedding columns that are made inside are a group: `input_layer` looks them up together.

    API of DeepRec. Nothing but that changes: names, shapes, values and gradients are those of the
    same columns outside, but that none flows to the weights of an embedding variable's ids. A scope
    ends where the `with` does; of nested ones the inner one counts.

    Args:
      name: of the group; scopes of one name are one group. None: a group of its own.
      params_num_per_group: ignored; it changes no result.

    Yields:
      The group's name, which its columns have as `group_name`.
    """
    del params_num_per_group
    group = f"group_embedding_column_scope_{next(_numbers) if name is None else name}"
    before = _group.set(group)
    try:
        yield group
    finally:
        _group.reset(before)


@_of_tensorflow
def categorical_column_with_embedding(key, dtype=tf.string, partition_num=None, ev_option=None):
    """A categorical column of any ids, whose embeddings an embedding variable has.

    API of DeepRec. For `embedding_column` and `shared_embedding_columns`, alone or in a
    `weighted_categorical_column`; in a crossed_column it gives its ids.

    Args:
      key: of the feature: a SparseTensor, or a tensor whose '' or -1 stand for nothing.
      dtype: tf.string, whose values are hashed to int64 as in DeepRec, so that checkpoints have the
        same keys; tf.int64 or tf.int32, whose values are the ids.
      partition_num: parts of the variable, an int >= 1; None: those of the variable scope, or one.
        Columns of several parts are looked up one by one.
      ev_option: an EmbeddingVariableOption; None: that of its defaults.

    Raises:
      ValueError: an argument out of range.
    """
    dtype = tf.as_dtype(dtype)
    if dtype != tf.string and dtype not in KEY_DTYPES:
        raise ValueError(
            f"the column {key!r}: dtype must be string, int64 or int32, got {dtype.name}"
        )
    if partition_num is not None and (not isinstance(partition_num, int) or partition_num < 1):
        raise ValueError(
            f"the column {key!r}: partition_num must be an int >= 1, got {partition_num!r}"
        )
    return CategoricalColumnWithEmbedding(key, dtype, partition_num, ev_option)


@_of_tensorflow
def embedding_column(
    categorical_column,
    dimension,
    combiner="mean",
    initializer=None,
    ckpt_to_load_from=None,
    tensor_name_in_ckpt=None,
    max_norm=None,
    trainable=True,
    coalesced_scope=None,
    do_fusion=False,
    use_safe_embedding_lookup=True,
):
    """As tf.compat.v1.feature_column.embedding_column. API of DeepRec.

    Args:
      categorical_column: as there, or a categorical_column_with_embedding.
      coalesced_scope: None.
      do_fusion: ignored; it changes no result.
      others: as there.

    Raises:
      ValueError: as there; the combiner is none.
      NotImplementedError: a coalesced_scope; a checkpoint to load an embedding variable from.
    """
    del do_fusion
    _check_combiner(combiner)
    _check_not_coalesced(coalesced_scope)
    column = tf1.feature_column.embedding_column(
        categorical_column,
        dimension,
        combiner,
        initializer,
        ckpt_to_load_from,
        tensor_name_in_ckpt,
        max_norm,
        trainable,
        use_safe_embedding_lookup,
    )
    if _is_of_embedding_variable(categorical_column):
        _check_no_checkpoint(column)
        column = EmbeddingVariableColumn(**column._asdict())
    return _in_group(column)


@_of_tensorflow
def shared_embedding_columns(
    categorical_columns,
    dimension,
    combiner="mean",
    initializer=None,
    shared_embedding_collection_name=None,
    ckpt_to_load_from=None,
    tensor_name_in_ckpt=None,
    max_norm=None,
    trainable=True,
    coalesced_scope=None,
    do_fusion=False,
    use_safe_embedding_lookup=True,
):
    """As tf.compat.v1.feature_column.shared_embedding_columns. API of DeepRec.

    Args:
      categorical_columns: as there; or all of categorical_column_with_embedding, of the same
        arguments but for the key.
      coalesced_scope: None.
      do_fusion: ignored; it changes no result.
      others: as there.

    Raises:
      ValueError: as there.
      NotImplementedError: as of embedding_column.
    """
    del do_fusion
    _check_combiner(combiner)
    _check_not_coalesced(coalesced_scope)
    settings = dict(
        dimension=dimension,
        combiner=combiner,
        initializer=initializer,
        ckpt_to_load_from=ckpt_to_load_from,
        tensor_name_in_ckpt=tensor_name_in_ckpt,
        max_norm=max_norm,
        trainable=trainable,
        use_safe_embedding_lookup=use_safe_embedding_lookup,
    )
    collection = shared_embedding_collection_name
    make = tf1.feature_column.shared_embedding_columns
    categorical_columns = list(categorical_columns)
    if any(map(_is_of_embedding_variable, categorical_columns)):
        make = _shared_columns_of_embedding_variable
    columns = make(categorical_columns, shared_embedding_collection_name=collection, **settings)
    return [_in_group(column) for column in columns]


@_of_tensorflow
def input_layer(
    features,
    feature_columns,
    weight_collections=None,
    trainable=True,
    cols_to_vars=None,
    cols_to_output_tensors=None,
    adaptive_mask_tensors=None,
):
    """As tf.compat.v1.feature_column.input_layer. API of DeepRec.

    Columns of a group_embedding_column_scope are looked up together, but for those that one lookup
    cannot do: combiner 'sqrtn', max_norm, a checkpoint to load from, ids of more than two
    dimensions, and variables of several parts. A second call makes variables of its own, as there.

    Args:
      adaptive_mask_tensors: None.
      others: as there; cols_to_vars and cols_to_output_tensors have grouped columns, too.

    Returns:
      float32 [batch, all dimensions], columns in the order of their names.

    Raises:
      ValueError: as there.
      NotImplementedError: adaptive_mask_tensors.
    """
    if adaptive_mask_tensors:
        raise NotImplementedError(
            "input_layer: adaptive_mask_tensors are for columns of "
            "categorical_column_with_adaptive_embedding, which sok_compat does not have, got "
            f"{sorted(adaptive_mask_tensors)}"
        )
    feature_columns = stock.normalize_feature_columns(feature_columns)
    if not any(map(_group_of, feature_columns)):
        return tf1.feature_column.input_layer(
            features,
            feature_columns,
            weight_collections,
            trainable,
            cols_to_vars,
            cols_to_output_tensors,
        )
    for column in feature_columns:
        if not isinstance(column, stock.DenseColumn):
            raise ValueError(
                "input_layer: columns must be dense, got the categorical column "
                f"{column.name!r}: put it into an embedding_column or indicator_column"
            )
    columns = sorted(feature_columns, key=lambda column: column.name)
    with tf1.variable_scope(None, default_name="input_layer", values=list(features.values())):
        found = _look_up(features, columns, weight_collections, trainable, cols_to_vars)
        outputs = [
            tf.reshape(tensor, [tf.shape(tensor)[0], column._variable_shape.num_elements()])
            for column, tensor in zip(columns, _look_up_groups(found))
        ]
        if cols_to_output_tensors is not None:
            cols_to_output_tensors.update(zip(columns, outputs))
        stock.verify_static_batch_size_equality(outputs, columns)
        return tf.concat(outputs, 1)


def _look_up(features, columns, weight_collections, trainable, cols_to_vars):
    """For each column its tensor; or, where it is of a group, a ColumnLookup: what is still to do.

    Variable scopes are those of TensorFlow's input_layer, one after the other.
    """
    builder = stock.LazyBuilder(features)
    needed = [tf1.GraphKeys.GLOBAL_VARIABLES, tf1.GraphKeys.MODEL_VARIABLES]
    collections = list(weight_collections or [])
    collections += [name for name in needed if name not in collections]
    found = []
    for column in columns:
        with tf1.variable_scope(None, default_name=column._var_scope_name) as scope:
            found.append(_look_up_or_defer(column, builder, collections, trainable))
            if cols_to_vars is not None:
                of_scope = tf1.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES, scope=scope.name)
                cols_to_vars[column] = of_scope
    return found


def _look_up_or_defer(column, builder, collections, trainable):
    if not _group_of(column) or not may_be_grouped(column):
        return column._get_dense_tensor(
            builder, weight_collections=collections, trainable=trainable
        )
    sparse_tensors = column.categorical_column._get_sparse_tensors(
        builder, weight_collections=collections, trainable=trainable
    )
    lookup = ColumnLookup.of(column, sparse_tensors, collections, trainable)
    return lookup if lookup.is_of_bags else lookup.alone()


def _look_up_groups(found):
    """As `found`, with tensors in the place of lookups; groups in the order of their columns."""
    groups = {}
    for place, lookup in enumerate(found):
        if isinstance(lookup, ColumnLookup):
            groups.setdefault(_group_of(lookup.column), []).append((place, lookup))
    tensors = list(found)
    for name, members in groups.items():
        places, lookups = zip(*members)
        ids, weights = zip(*(lookup.taken() for lookup in lookups))
        pooled = group_embedding_lookup_sparse(
            [lookup.variable for lookup in lookups],
            ids,
            [lookup.column.combiner for lookup in lookups],
            weights,
            name=re.sub(r"[^\w.\\/>-]", "_", name, flags=re.ASCII),
        )
        for place, tensor in zip(places, pooled):
            tensors[place] = tensor
    return tensors


def _group_of(column):
    return getattr(column, "group_name", None)


def _in_group(column):
    """The column, marked as of the group whose scope is open."""
    if _group.get() is not None:
        column.group_name = _group.get()
    return column


def _is_of_embedding_variable(categorical_column):
    return isinstance(source_of(categorical_column), CategoricalColumnWithEmbedding)


def _shared_columns_of_embedding_variable(
    categorical_columns, shared_embedding_collection_name, **settings
):
    """SharedEmbeddingVariableColumns, checked as TensorFlow checks its own."""
    sources = [source_of(column) for column in categorical_columns]
    if len({source[1:] if isinstance(source, tuple) else None for source in sources}) > 1:
        raise ValueError(
            "columns that share an embedding variable must be of categorical_column_with_embedding "
            f"with the same arguments but for the key, got {sources}"
        )
    columns = [
        tf1.feature_column.embedding_column(column, **settings) for column in categorical_columns
    ]
    _check_no_checkpoint(columns[0])
    names = sorted(column.name for column in categorical_columns)
    collection = shared_embedding_collection_name or f"{'_'.join(names)}_shared_embedding"
    same = dict(initializer=columns[0].initializer, shared_embedding_collection_name=collection)
    return [SharedEmbeddingVariableColumn(**{**c._asdict(), **same}) for c in columns]


def _check_combiner(combiner):
    if combiner not in _COMBINERS:
        raise ValueError(f"combiner must be one of {', '.join(_COMBINERS)}, got {combiner!r}")


def _check_not_coalesced(coalesced_scope):
    if coalesced_scope is not None:
        raise NotImplementedError(
            f"sok_compat does not have coalesced scopes, got {coalesced_scope!r}: make the columns "
            "in a group_embedding_column_scope, to look them up together"
        )


def _check_no_checkpoint(column):
    if column.ckpt_to_load_from is not None:
        raise NotImplementedError(
            f"the column {column.name!r} of an embedding variable cannot start from the checkpoint "
            f"{column.ckpt_to_load_from!r}: restore it with tf.train.Saver"
        )


NAMES = {
    f"feature_column.{function.__name__}": function
    for function in (
        categorical_column_with_embedding,
        embedding_column,
        group_embedding_column_scope,
        input_layer,
        shared_embedding_columns,
    )
}
