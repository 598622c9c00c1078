# SPDX-License-Identifier: Apache-2.0
"""The tables of a graph as dense arrays, in ordinary variables."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from sok_compat.lookup.dense_tables import DenseTable, dense_tables
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.perfect_hash import PerfectHash, find_perfect_hash
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.runtime.op_library import ops
from sok_compat.tables.known_tables import is_part_of_table
from sok_compat.tables.table import Table

tf1 = tf.compat.v1


class ArraysOfTables:
    """Creates the arrays of tables that lookups use, and fills them from the tables."""

    def __init__(self) -> None:
        self._arrays: dict[Any, _Arrays] = {}  # {reference to a Table: _Arrays}

    def of(self, table: Table) -> DenseTable:
        """Returns the DenseTable of a Table, for `dense_tables`."""
        if table.ref() not in self._arrays:
            with tf.init_scope():
                self._arrays[table.ref()] = _Arrays(table)
        return self._arrays[table.ref()].dense

    def variables(self) -> list[tf.Variable]:
        """Returns the variables that hold the arrays."""
        return [each for arrays in self._arrays.values() for each in arrays.variables]

    @staticmethod
    def other_variables() -> list[tf.Variable]:
        """Returns the graph's variables that are neither tables nor slots."""
        variables = tf1.global_variables()
        return [variable for variable in variables if not is_part_of_table(variable)]

    def fill(self, session: tf.compat.v1.Session) -> None:
        """Copies the contents of the tables into the arrays."""
        for arrays in self._arrays.values():
            arrays.fill(session)


class _Arrays:
    def __init__(self, table: Table) -> None:
        """Makes the ops; raises ValueError if stock ops cannot compute the first values."""
        name = f"{table.table_name}/served_"
        self._keys = _variable(f"{name}keys", tf.int64, [None])
        self._rows = _variable(f"{name}rows", tf.float32, [None, table.dim])
        self._hash = PerfectHash(
            _variable(f"{name}seed", tf.int64, []),
            _variable(f"{name}displacements", tf.int32, [None]),
        )
        self.variables = self._hash.seed, self._hash.displacements, self._keys, self._rows
        self._contents = ops.sok_export_table(table.table_handle)
        self._absent_rows = _rows_of_absent_keys(table)
        self._period = tf.compat.dimension_value(self._absent_rows.shape[0])
        self._feeds = [tf1.placeholder(each.dtype, each.shape) for each in self.variables]
        self._assign = [
            tf.raw_ops.AssignVariableOp(resource=variable.handle, value=feed)
            for variable, feed in zip(self.variables, self._feeds)
        ]

    @property
    def dense(self) -> DenseTable:
        return DenseTable(self._hash, self._keys, self._rows, self._period)

    def fill(self, session: tf.compat.v1.Session) -> None:
        absent_rows = self._absent_rows
        if not isinstance(absent_rows, np.ndarray):
            absent_rows = session.run(absent_rows)
        keys, rows = session.run(self._contents)
        found, slots = find_perfect_hash(keys)
        order = np.argsort(slots)
        by_slot = np.append(keys[order], 0), np.concatenate([rows[order], absent_rows])
        arrays = found.seed, found.displacements, *by_slot
        session.run(self._assign, dict(zip(self._feeds, arrays)))


def _variable(name: str, dtype: tf.DType, shape: Sequence[int | None]) -> tf.Variable:
    # In no collection: checkpoints that restore the graph do not have it.
    return tf1.Variable(
        tf.zeros([each or 0 for each in shape], dtype),
        trainable=False,
        collections=[],
        use_resource=True,
        shape=tf.TensorShape(shape),
        name=name,
    )


def _rows_of_absent_keys(table: Table) -> np.ndarray | tf.Tensor:
    """Returns the rows [period, dim] of keys that are not in the table; see DenseTable."""
    first, history = table.first_value, table.history
    if history is not None and history.filter_freq:
        return np.full([1, table.dim], history.value_without_row, np.float32)
    if first.kind == "constant":
        return np.full([1, table.dim], first.low_or_mean, np.float32)
    if first.rows is not None:
        rows = ops.sok_read_first_rows(table.table_handle)
        rows.set_shape(first.rows.shape)
        return rows
    if first.period is None:
        raise ValueError(
            f"with stock_ops, keys that {table.table_name} does not have cannot get its first "
            f"values, {first}, which only ops of sok_compat compute: give missing_keys='zeros', "
            "or stock_ops=False"
        )
    first = dataclasses.replace(first, name=first.name or table.table_name)
    empty = Table(
        None, table.dim, first, row_dtype=table.row_dtype, seed=table.seed, collections=[]
    )
    keys = tf.range(first.period, dtype=tf.int64)
    with dense_tables(None), tf.control_dependencies([empty.initializer]):
        (rows,) = lookup_group([Lookup(empty, keys)], insert=False)
    rows.set_shape([first.period, table.dim])
    return rows
