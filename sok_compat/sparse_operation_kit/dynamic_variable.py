# SPDX-License-Identifier: Apache-2.0
"""`DynamicVariable`: a variable of SparseOperationKit 2 that grows with its keys."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, NoReturn

import tensorflow as tf

from sok_compat.lookup.keys import int32_keys, integer_keys
from sok_compat.runtime.checked import checked
from sok_compat.runtime.known_words import checks_words
from sok_compat.runtime.tf_versions import global_seed
from sok_compat.sparse_operation_kit.communication import initialized_ranks
from sok_compat.sparse_operation_kit.distributed_variable import (
    StaticVariable,
    raise_for_constraint,
)
from sok_compat.sparse_operation_kit.variables.dump_names import dump_name
from sok_compat.sparse_operation_kit.variables.first_values import first_value_of_keys
from sok_compat.sparse_operation_kit.variables.key_lookups import LooksUpKeys
from sok_compat.sparse_operation_kit.variables.mode import mode_of, placement_of, target_of
from sok_compat.sparse_operation_kit.variables.options import DynamicOptions, checked_var_type
from sok_compat.sparse_operation_kit.variables.slots_by_key import (
    assign_rows_of_slot,
    rows_of_slot,
)
from sok_compat.tables.first_value import Initializer
from sok_compat.tables.key_history import KeyHistory
from sok_compat.tables.rows.row_writes import write_rows
from sok_compat.tables.slots.slot_variable import SlotVariable
from sok_compat.tables.table import Table
from sok_compat.tables.table_arguments import checked_row_dtype

KEY_TYPES = (tf.int64, tf.int32)

_numbers = itertools.count()  # of variables without a name


class DynamicVariable(LooksUpKeys, Table):
    """Keys -> rows of `dimension` float32; lookups insert keys. API of SparseOperationKit 2.

    Any integer of key_type is a key; others raise. One of var_type 'hybrid' that has
    max_capacity keys on a rank evicts the least recently used ones. Train it with
    `sok.OptimizerWrapper` or `sok.SGD`. Its gradients are tf.IndexedSlices by row ids, not by keys.

    Attributes:
      dimension: floats in a row.
      key_type: tf.int64 or tf.int32.
      backend_type: 'hbm' or 'hybrid'.
      options: the DynamicOptions.
      initializer_str: the initializer as text, '' for None.
      target_gpu: the rank that has all keys; -1: rank key % ranks has a key.
      num_gpus: number of ranks.
      indices: None.
    """

    words = dataclasses.replace(
        StaticVariable.words,
        initializer="the initializer of a sok.DynamicVariable",
        look_up="with sok.lookup_sparse or tf.nn.embedding_lookup",
    )
    indices = None

    @checks_words(field.name for field in dataclasses.fields(DynamicOptions))
    def __init__(
        self,
        dimension: int,
        initializer: Initializer | float | tf.Variable = None,
        var_type: str | None = None,
        name: str | None = None,
        constraint: None = None,
        trainable: bool = True,
        key_type: tf.DType | str | None = None,
        dtype: tf.DType | str | None = None,
        mode: str | None = None,
        *,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Makes the variable; in a graph, its ops. All ranks make it together.

        Args:
          dimension: floats in a row, an int >= 1.
          initializer: None or 'random' (uniform in [-0.05, 0.05) for 'hbm', a standard normal for
            'hybrid'), 'random {"mean": .., "stddev": ..}' (normal), 'normal', 'uniform' (in [0,
            1)), 'ones', 'zeros', a number or its text, a variable (its first element), any name or
            initializer of Keras that can make single rows, or a callable of (shape, dtype). Those
            that depend on the number of rows, as Glorot's, take init_capacity for it.
          var_type: 'hbm' or 'hybrid' (also None).
          name: made unique; None: 'sok_dynamic_Variable_<number>'.
          constraint: None.
          trainable: whether to add it to TRAINABLE_VARIABLES.
          key_type: int64 (also None) or int32.
          dtype: of the rows in memory; see the row_dtype of `sok.Init`, the default.
          mode: 'distributed' (also None) or 'localized:<rank>'.
          seed: of first values; None: tf.random.set_seed's, or a constant.
          **kwargs: see DynamicOptions.

        Raises:
          RuntimeError: sok.init has not been called; a wrong mode.
          TypeError, ValueError: an unknown option; an argument is out of range.
          NotImplementedError: constraint is given.
        """
        raise_for_constraint("sok.DynamicVariable", constraint)
        self.backend_type, self.options = checked_var_type(var_type), DynamicOptions.of(kwargs)
        self.key_type = _checked_key_type(key_type)
        self.target_gpu, ranks = target_of(mode), initialized_ranks("sok.DynamicVariable")
        self.num_gpus = ranks.size
        self.initializer_str = "" if initializer is None else str(initializer)
        shape, called = [self.options.init_capacity, dimension], self.words.initializer
        name = name or f"sok_dynamic_Variable_{next(_numbers)}"
        self.dump_name = dump_name(name)
        super().__init__(
            None,
            dimension,
            first_value_of_keys(initializer, self.backend_type, shape, called),
            row_dtype=checked_row_dtype(dtype, "the dtype of a sok.DynamicVariable"),
            name=name,
            seed=global_seed() if seed is None else seed,
            trainable=trainable,
            placement=placement_of(self.target_gpu, ranks),
            history=_history_of(self.backend_type, self.options),
        )

    @property
    def dimension(self) -> int:
        """Floats in a row."""
        return self.dim

    @property
    def key_dtype_of_ids(self) -> tf.DType:
        """Its key_type, in which restored keys must fit."""
        return self.key_type

    @property
    def handle_dtype(self) -> tf.DType:
        """tf.float32, of the rows."""
        return self.dtype

    @property
    def size(self) -> tf.Tensor:
        """int32 [2]: (rows of this rank, dimension)."""
        return tf.stack([tf.cast(self.num_keys(), tf.int32), self.dim])

    @property
    def mode(self) -> str:
        """'distributed' or 'localized:<rank>'."""
        return mode_of(self.target_gpu)

    @property
    def config_dict(self) -> dict[str, Any]:
        """The options by name."""
        return dataclasses.asdict(self.options)

    def key_map(self, indices: Any) -> Any:
        """Returns `indices`."""
        return indices

    def to_static(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises NotImplementedError: `sok.OptimizerWrapper` shows the rows of a step."""
        del args, kwargs
        raise NotImplementedError(
            "to_static and to_dynamic of a sok.DynamicVariable are not defined, as its gradients "
            "have row ids: wrap the optimizer in sok.OptimizerWrapper"
        )

    to_dynamic = to_static

    def checked_keys(self, keys: Any) -> tf.Tensor:
        """See the base class.

        Raises:
          tf.errors.InvalidArgumentError: when run: a key does not fit in key_type.
        """
        if not isinstance(keys, (tf.SparseTensor, tf.RaggedTensor)):  # which raise
            keys = tf.convert_to_tensor(keys)
        checked = super().checked_keys(keys)
        if self.key_type == tf.int64:
            return checked
        called = f"keys of {self.table_name}"
        return int32_keys(keys, checked, called, "its key_type; use key_type=tf.int64")


def assign(variable: Any, indices: Any, values: Any) -> tf.Operation | None:
    """Sets the rows of keys of this rank; unknown keys are inserted. API of SparseOperationKit 2.

    Args:
      variable: a DynamicVariable; also one of sok.Variable, or a slot of either, whose keys have
        rows already.
      indices: integers [n]: distinct keys that this rank owns.
      values: [n, dim].

    Returns:
      The op; None in eager mode.

    Raises:
      TypeError: the variable is another, or indices are not integers.
      ValueError: the shapes do not fit.
      tf.errors.InvalidArgumentError: when run: another rank owns a key.
    """
    if isinstance(variable, SlotVariable):
        keys = integer_keys(indices, f"keys of {variable.name}", "sok.lookup_sparse")
        rows = _checked_rows(variable.name, keys, values, variable.width)
        return assign_rows_of_slot(variable, keys, rows)
    if not isinstance(variable, (DynamicVariable, StaticVariable)):
        raise TypeError(f"sok.assign needs a variable of sok, got {type(variable).__name__}")
    keys = variable.checked_keys(indices)
    rows = _checked_rows(variable.table_name, keys, values, variable.dim)
    if variable.placement.is_spread:
        keys = _owned(variable, keys)
    return write_rows(variable, keys, rows)


def _checked_rows(name: str, keys: tf.Tensor, values: Any, width: int) -> tf.Tensor:
    """Returns the values as float32 rows; raises ValueError unless they are those of the keys."""
    rows = tf.cast(tf.convert_to_tensor(values), tf.float32)
    num_keys = tf.compat.dimension_at_index(keys.shape, 0).value if keys.shape.rank == 1 else 0
    if keys.shape.rank not in (None, 1) or not rows.shape.is_compatible_with([num_keys, width]):
        raise ValueError(
            f"sok.assign to {name} needs indices [n] and values [n, {width}], got {keys.shape} and "
            f"{rows.shape}"
        )
    return rows


def _owned(variable: Table, keys: tf.Tensor) -> tf.Tensor:
    """Returns the keys, and fails when run if another rank owns one."""
    rank = variable.ranks.rank
    is_owned = tf.equal(variable.placement.owner_in_graph(keys), rank)
    message = f"sok.assign to {variable.table_name}: another rank than this one, {rank}, owns a key"
    return checked(keys, tf.reduce_all(is_owned), message, keys)


def export(variable: Any) -> tuple[tf.Tensor, tf.Tensor] | None:
    """Returns the keys and rows of this rank, on the CPU. API of SparseOperationKit 2.

    Args:
      variable: a DynamicVariable, or a slot of one, whose keys are int64.

    Returns:
      (keys [n] of key_type, ascending; rows float32 [n, dimension]); None for other variables.
    """
    if isinstance(variable, SlotVariable):
        key_type, (keys, rows) = tf.int64, rows_of_slot(variable)
    elif isinstance(variable, DynamicVariable):
        key_type, (keys, rows) = variable.key_type, variable.export()
    else:
        return None
    with tf.device("CPU:0"):
        order = tf.argsort(keys)
        return tf.cast(tf.gather(keys, order), key_type), tf.gather(rows, order)


def filter_variables(
    variables: Sequence[tf.Variable],
) -> tuple[list[tf.Variable], list[tf.Variable]]:
    """Splits variables. API of SparseOperationKit 2.

    Args:
      variables: of any kind.

    Returns:
      (those of sok.DynamicVariable and sok.Variable, all others), in their order.
    """
    kinds = (DynamicVariable, StaticVariable)
    return (
        [each for each in variables if isinstance(each, kinds)],
        [each for each in variables if not isinstance(each, kinds)],
    )


def _history_of(var_type: str, options: DynamicOptions) -> KeyHistory | None:
    return KeyHistory(max_keys=options.max_capacity) if var_type == "hybrid" else None


def _checked_key_type(key_type: tf.DType | str | None) -> tf.DType:
    try:
        dtype = tf.as_dtype(key_type or tf.int64)
    except TypeError:
        dtype = None
    if dtype not in KEY_TYPES:
        raise ValueError(f"key_type must be int64 or int32, got {key_type!r}")
    return dtype


__all__ = ["DynamicVariable", "assign", "export", "filter_variables"]
