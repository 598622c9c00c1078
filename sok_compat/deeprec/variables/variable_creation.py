# SPDX-License-Identifier: Apache-2.0
"""`get_embedding_variable`: embedding variables by name, in variable scopes."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from sok_compat.checkpoint.loading.init_from_checkpoint import start_from
from sok_compat.deeprec.variables.embedding_variable import (
    KEY_DTYPES,
    EmbeddingVariable,
    PartitionedEmbeddingVariable,
)
from sok_compat.deeprec.variables.options import (
    EmbeddingVariableOption,
    InitializerOfRows,
    check_is_supported,
)
from sok_compat.deeprec.variables.storage_option import StorageType
from sok_compat.runtime.checked_values import checked_count
from sok_compat.runtime.devices import can_use_gpus
from sok_compat.tables.first_value import FirstValue
from sok_compat.tables.stored.table_part import NUM_BUCKETS, TablePart
from sok_compat.tables.table_arguments import checked_row_dtype

_logger = logging.getLogger(__name__)

tf1 = tf.compat.v1

_warned_of: set[str] = set()  # the first variable without a GPU


def get_embedding_variable(
    name: str,
    embedding_dim: int,
    key_dtype: tf.DType | str = tf.int64,
    value_dtype: tf.DType | str | None = None,
    initializer: InitializerOfRows = None,
    regularizer: Callable[..., Any] | None = None,
    trainable: bool = True,
    collections: Sequence[str] | None = None,
    caching_device: Any = None,
    partitioner: Callable[..., Sequence[int]] | None = None,
    validate_shape: bool = True,
    custom_getter: Callable[..., Any] | None = None,
    constraint: Callable[..., Any] | None = None,
    steps_to_live: int | None = None,
    init_data_source: str | None = None,
    ev_option: EmbeddingVariableOption | None = None,
) -> EmbeddingVariable | PartitionedEmbeddingVariable:
    """The embedding variable of this name in the current variable scope. API of DeepRec.

    Makes it, or finds it under `reuse`, as tf.get_variable. It grows with its keys. Other arguments
    are as for tf.get_variable; caching_device and validate_shape are ignored.

    Args:
      name: name in the current variable scope.
      embedding_dim: floats in a row, an int >= 1.
      key_dtype: tf.int64 or tf.int32.
      value_dtype: of the rows in memory, tf.float32, tf.bfloat16 or tf.float16: of the last two
        they take half as much, and updates round them at random, such that the mean is exact.
        Lookups, gradients and slots are float32. None: the default (see `sok.Init`).
      initializer: first values of rows, if `ev_option.init.initializer` is None; see
        `first_value_of`. Keys k and floormod(k, default_value_dim) start alike.
      collections: in addition to GraphKeys.EMBEDDING_VARIABLES; None: GLOBAL_VARIABLES.
      partitioner: gives the number of parts; None: the scope's partitioner.
      steps_to_live: as a GlobalStepEvict, which overrides it.
      ev_option: an EmbeddingVariableOption; None: the defaults.

    Returns:
      An EmbeddingVariable; with a partitioner, a PartitionedEmbeddingVariable of variables called
      <name>/part_0 and so on.

    Raises:
      ValueError: in eager mode; an argument out of range; under `reuse`, no variable of this name,
        or one of another size or kind; a checkpoint to start from does not have the variable; the
        device is one of a parameter server.
      NotImplementedError: an init_data_source; a regularizer or constraint, also of the
        scope, because there is no dense tensor.
    """
    del caching_device, validate_shape
    option = EmbeddingVariableOption() if ev_option is None else ev_option
    scope = tf1.get_variable_scope()
    _check_arguments(name, embedding_dim, option)
    row_dtype = checked_row_dtype(value_dtype, f"{name}: value_dtype")
    _check_no_dense_argument(name, regularizer or scope.regularizer, constraint or scope.constraint)
    check_is_supported(name, option, steps_to_live, init_data_source)
    settings = dict(trainable=trainable, custom_getter=custom_getter, collections=collections)
    wanted = _Wanted(
        embedding_dim, key_dtype, row_dtype, initializer, option, steps_to_live, settings
    )
    return wanted.get(name, _num_parts(partitioner or scope.partitioner, embedding_dim))


@dataclasses.dataclass(frozen=True, eq=False)
class _Wanted:
    """The requested properties of a variable; `settings` are arguments of tf.get_variable."""

    embedding_dim: int
    key_dtype: tf.DType | str
    row_dtype: tf.DType
    initializer: Any
    option: EmbeddingVariableOption
    steps_to_live: int | None
    settings: dict[str, Any]

    def get(
        self, name: str, num_parts: int | None
    ) -> EmbeddingVariable | PartitionedEmbeddingVariable:
        """Makes or finds the variable; num_parts None: not partitioned."""
        if num_parts is None:
            return self._get(name)
        parts: list[EmbeddingVariable] = []
        for i in range(num_parts):
            part = TablePart(i, num_parts)
            first_value = parts[0].first_value if parts else None
            parts.append(self._get(name + part.suffix, part, first_value))
        return PartitionedEmbeddingVariable(parts[0].table_name.removesuffix("/part_0"), parts)

    def _get(
        self, name: str, part: TablePart | None = None, first_value: FirstValue | None = None
    ) -> EmbeddingVariable:
        """Uses tf.get_variable, for its names, reuse and custom getters."""
        make = functools.partial(self._make, part=part, first_value=first_value)
        scope = tf1.get_variable_scope()
        with (
            _device_of(self.option, name),
            tf.variable_creator_scope(make),
            tf1.variable_scope(scope, auxiliary_name_scope=False) as inner,
        ):
            inner.set_partitioner(None)
            found = tf1.get_variable(
                name,
                [self.embedding_dim],
                tf.float32,
                tf1.zeros_initializer(),
                use_resource=True,
                **self.settings,
            )
        _check_device(found)
        return _checked(found, self.key_dtype, self.row_dtype, part)

    def _make(self, next_creator, part, first_value, **kwargs):
        variable = EmbeddingVariable(
            kwargs["name"],
            self.embedding_dim,
            _checked_key_dtype(kwargs["name"], self.key_dtype),
            self.initializer,
            kwargs["trainable"],
            kwargs["collections"],
            self.option,
            steps_to_live=self.steps_to_live,
            part=part,
            first_value=first_value,
            row_dtype=self.row_dtype,
        )
        checkpoint = self.option.ckpt
        if checkpoint is not None and checkpoint.ckpt_to_load_from is not None:
            start_from(variable, checkpoint.ckpt_to_load_from, checkpoint.tensor_name_in_ckpt)
        return variable


def _check_device(variable: Any) -> None:
    if tf.DeviceSpec.from_string(variable.device or "").job == "ps":
        raise ValueError(
            f"{variable.name}: an embedding variable cannot be on a parameter server, got the "
            f"device {variable.device}: the ranks share its rows. Build the model without "
            "tf.train.replica_device_setter, and start ranks: python -m sok_compat.run.launch "
            "-np 2 script.py"
        )


def _checked(
    variable: Any, key_dtype: tf.DType | str, row_dtype: tf.DType, part: TablePart | None
) -> EmbeddingVariable:
    if not isinstance(variable, EmbeddingVariable):
        raise ValueError(
            f"{variable.name} already exists, and is not an embedding variable but "
            f"{type(variable).__name__}"
        )
    if part is not None and variable.storage.part != part:
        existing = variable.storage.part
        count = existing.count if existing else "no"
        raise ValueError(
            f"{variable.table_name} already exists as one of {count} parts, requested as one of "
            f"{part.count}: the number of parts determines which part has a key"
        )
    wanted = _checked_key_dtype(variable.table_name, key_dtype)
    if variable.key_dtype_of_ids != wanted:
        raise ValueError(
            f"{variable.table_name} already exists with key_dtype "
            f"{variable.key_dtype_of_ids.name}, requested with {wanted.name}"
        )
    if variable.row_dtype != row_dtype:
        raise ValueError(
            f"{variable.table_name} already exists with value_dtype {variable.row_dtype.name}, "
            f"requested with {row_dtype.name}"
        )
    return variable


def _check_arguments(name: Any, embedding_dim: Any, option: Any) -> None:
    if tf.executing_eagerly():
        raise ValueError(
            f"{name}: embedding variables need graph mode, as in DeepRec: use a tf.Graph, or "
            "tf.compat.v1.disable_eager_execution()"
        )
    if not isinstance(name, str) or not name:
        raise ValueError(f"the name of an embedding variable must be a string, got {name!r}")
    checked_count(f"{name}: embedding_dim", embedding_dim, 1)
    if not isinstance(option, EmbeddingVariableOption):
        raise ValueError(f"{name}: ev_option must be an EmbeddingVariableOption, got {option!r}")


def _check_no_dense_argument(name: str, regularizer: Any, constraint: Any) -> None:
    for argument, value in {"regularizer": regularizer, "constraint": constraint}.items():
        if value is not None:
            raise NotImplementedError(
                f"{name}: embedding variables do not support a {argument}, which needs a dense "
                f"tensor of all rows, got {value!r}: regularize the results of lookups instead"
            )


def _checked_key_dtype(name: str, key_dtype: tf.DType | str | None) -> tf.DType:
    try:
        dtype = tf.as_dtype(key_dtype)
    except TypeError:
        dtype = None
    if dtype not in KEY_DTYPES:
        raise ValueError(f"{name}: key_dtype must be int64 or int32, got {key_dtype!r}")
    return dtype


def _num_parts(partitioner: Callable[..., Sequence[int]] | None, embedding_dim: int) -> int | None:
    """None without a partitioner."""
    if partitioner is None:
        return None
    shape = tf.TensorShape([NUM_BUCKETS, embedding_dim])
    return math.prod(int(parts) for parts in partitioner(shape=shape, dtype=tf.float32))


def _device_of(option: EmbeddingVariableOption, name: str) -> AbstractContextManager[Any]:
    """A context that places the table on the device of its storage type."""
    if option.storage_option.files():
        return tf.device("/CPU:0")
    if option.storage_option.storage_type is not StorageType.HBM:
        return contextlib.nullcontext()
    if can_use_gpus():
        return tf.device("/GPU:0")
    if not _warned_of:
        _warned_of.add(name)
        _logger.warning(
            "%s: storage type HBM, but no GPU that tables can use: rows are stored in DRAM", name
        )
    return contextlib.nullcontext()
