# SPDX-License-Identifier: Apache-2.0
"""`Variable`: a static variable of SparseOperationKit 2, with its rows on one rank or all."""

from __future__ import annotations

import inspect
import itertools
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from sok_compat.runtime.known_words import (
    VARIABLE_WORDS,
    checks_words,
    raise_for_unknown_words,
)
from sok_compat.runtime.tf_versions import global_seed
from sok_compat.sparse_operation_kit.communication import initialized_ranks
from sok_compat.sparse_operation_kit.variables.dump_names import dump_name
from sok_compat.sparse_operation_kit.variables.first_values import first_value_of_rank
from sok_compat.sparse_operation_kit.variables.key_lookups import LooksUpKeys
from sok_compat.sparse_operation_kit.variables.mode import (
    EVERY_RANK,
    mode_of,
    placement_of,
    target_of,
)
from sok_compat.tables.first_value import FirstValue, Initializer, parse_initializer
from sok_compat.tables.table import Table
from sok_compat.tables.table_arguments import checked_row_dtype
from sok_compat.tables.words import Words

_numbers = itertools.count()  # of variables without a name


class StaticVariable(LooksUpKeys, Table):
    """Rows [rows, dim] float32 at the keys 0 to rows - 1, spread over ranks.

    `sok.Variable` makes it. As a tf.Variable it shows the rows of this rank; a rank without rows
    shows one row that no key has. Any optimizer trains it.

    Attributes:
      global_shape: [rows, dim] of all ranks.
      target_gpu: the rank that has all rows; -1: they are on all ranks.
      num_gpus: number of ranks.
      global_gpu_id: this rank.
    """

    words = Words(
        initializer="the initial value of a sok.Variable",
        without_index="sok.Variable",
        look_up="with sok.lookup_sparse",
        save="tf.train.Saver or tf.train.Checkpoint",
        restore="tf.train.Saver or tf.train.Checkpoint",
        set_rows="sok.assign",
        others="sok.filter_variables(variables)[1]",
    )

    @checks_words(VARIABLE_WORDS)
    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool = True,
        name: str | None = None,
        dtype: tf.DType | str | None = None,
        *,
        shape: Any = None,
        initializer: Initializer = None,
        target_gpu: int = EVERY_RANK,
        seed: int | None = None,
        collections: Iterable[str] | None = None,
        constraint: None = None,
        **kwargs: Any,
    ) -> None:
        """Makes the variable; in a graph, its ops. All ranks make it together.

        Args:
          initial_value: the rows of all ranks, [rows, dim]: a list, array, tensor or a callable
            without arguments; the same on all ranks.
          trainable: whether to add it to TRAINABLE_VARIABLES.
          name: made unique; None: 'sok_static_Variable_<number>'.
          dtype: of the rows in memory; see the row_dtype of `sok.Init`, the default.
          shape: (rows, dim), with an initializer instead of initial_value.
          initializer: see `parse_initializer`; gets the shape of the whole variable.
          target_gpu: see the class.
          seed: of the initializer; None: tf.random.set_seed's, or a constant.
          collections: graph collections; None: GLOBAL_VARIABLES.
          constraint: None.
          **kwargs: other arguments of tf.Variable (validate_shape, caching_device, ...), ignored.

        Raises:
          RuntimeError: sok.init has not been called; target_gpu does not exist.
          TypeError: an argument that tf.Variable does not have.
          ValueError: neither or both of initial_value and shape; a wrong shape or dtype.
          NotImplementedError: constraint is given.
        """
        del kwargs
        raise_for_constraint(type(self).__name__, constraint)
        row_dtype = checked_row_dtype(dtype, f"the dtype of a {type(self).__name__}")
        ranks = initialized_ranks(f"sok.{type(self).__name__}")
        rows, dim, first = _shape_and_first_value(initial_value, shape, initializer)
        placement = placement_of(target_gpu, ranks, rows)
        self.global_shape = tf.TensorShape([rows, dim])
        self.target_gpu, self.num_gpus, self.global_gpu_id = target_gpu, ranks.size, ranks.rank
        name = name or f"sok_static_Variable_{next(_numbers)}"
        self.dump_name = dump_name(name)
        super().__init__(
            max(1, placement.num_rows(rows)),
            dim,
            first_value_of_rank(first, [rows, dim], placement),
            use_hash_index=False,
            row_dtype=row_dtype,
            name=name,
            seed=global_seed() if seed is None else seed,
            trainable=trainable,
            placement=placement,
            collections=collections,
        )

    def description(self) -> str:
        """See the base class: with the shape of all ranks instead of this rank's."""
        return (
            f"{self.kind()}, shape {self.global_shape}, first value {self.first_value}, seed "
            f"{self._first_seed}"
        )

    @property
    def mode(self) -> str:
        """'distributed' or 'localized:<rank>'."""
        return mode_of(self.target_gpu)

    def key_map(self, indices: Any) -> Any:
        """Returns the row of each key on its rank."""
        return indices // self.num_gpus if self.target_gpu == EVERY_RANK else indices


class DistributedVariable(StaticVariable):
    """A variable whose key k is row k // ranks of rank k % ranks. API of SparseOperationKit 2."""


class LocalizedVariable(StaticVariable):
    """A variable whose rows are on one rank, target_gpu. API of SparseOperationKit 2."""

    def __init__(self, *args: Any, target_gpu: int, **kwargs: Any) -> None:
        """As StaticVariable, with a required target_gpu >= 0.

        Args:
          *args, **kwargs: see StaticVariable.
          target_gpu: the rank that has the rows, >= 0.
        """
        super().__init__(*args, target_gpu=max(0, target_gpu), **kwargs)


def Variable(
    initial_value: Any = None,
    trainable: bool = True,
    validate_shape: bool = True,
    caching_device: Any = None,
    name: str | None = None,
    variable_def: Any = None,
    dtype: tf.DType | str | None = None,
    *,
    mode: str | None = None,
    **kwargs: Any,
) -> StaticVariable:
    """Makes a static variable, with its rows spread over ranks. API of SparseOperationKit 2.

    Args:
      initial_value, trainable, name, dtype: see StaticVariable.
      validate_shape, caching_device, variable_def: of tf.Variable, ignored.
      mode: 'distributed' (also None) or 'localized:<rank>'.
      **kwargs: see StaticVariable.

    Returns:
      A DistributedVariable or LocalizedVariable.

    Raises:
      RuntimeError: mode is none of these, or the rank does not exist; sok.init has not been called.
      TypeError, ValueError, NotImplementedError: see StaticVariable.
    """
    del validate_shape, caching_device, variable_def
    of_classes = inspect.signature(StaticVariable.__init__).parameters
    words = [*inspect.signature(Variable).parameters, *of_classes, *VARIABLE_WORDS]
    known = [word for word in dict.fromkeys(words) if word not in ("self", "kwargs")]
    raise_for_unknown_words("sok.Variable", kwargs, known)
    target_gpu = target_of(mode)
    if target_gpu == EVERY_RANK:
        return DistributedVariable(initial_value, trainable, name, dtype, **kwargs)
    return LocalizedVariable(initial_value, trainable, name, dtype, target_gpu=target_gpu, **kwargs)


def raise_for_constraint(user: str, constraint: Any) -> None:
    """Raises NotImplementedError for a constraint."""
    if constraint is not None:
        raise NotImplementedError(
            f"a {user} takes no constraint: optimizers update the rows of a step only"
        )


def _shape_and_first_value(
    initial_value: Any, shape: Any, initializer: Initializer
) -> tuple[int, int, FirstValue]:
    """Returns (rows, dim, FirstValue of all rows)."""
    if (initial_value is None) == (shape is None):
        raise ValueError(
            "sok.Variable needs either initial_value or shape with initializer, got "
            f"{'neither' if shape is None else 'both'}"
        )
    called = StaticVariable.words.initializer
    if shape is not None:
        rows, dim = _checked_shape(shape)
        return rows, dim, parse_initializer(initializer, [rows, dim], False, called)
    with tf.init_scope():
        value = initial_value() if callable(initial_value) else initial_value
        value = value if tf.is_tensor(value) else np.asarray(value, np.float32)
        value = tf.cast(value, tf.float32)
    rows, dim = _checked_shape(value.shape)

    def given_rows(shape, dtype):
        del shape, dtype
        return value

    return rows, dim, FirstValue("preset", initializer=given_rows, called=called)


def _checked_shape(shape: Any) -> tuple[int, int]:
    sizes = tf.TensorShape(shape)
    if sizes.rank != 2 or not sizes.is_fully_defined():
        raise ValueError(f"a sok.Variable must have the shape (rows, dim), got {sizes}")
    rows, dim = map(operator.index, sizes.as_list())
    if rows < 1 or dim < 1:
        raise ValueError(f"rows and dim of a sok.Variable must be at least 1, got {sizes}")
    return rows, dim


__all__ = ["DistributedVariable", "LocalizedVariable", "Variable"]
