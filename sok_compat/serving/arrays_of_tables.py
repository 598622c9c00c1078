# SPDX-License-Identifier: Apache-2.0
"""The tables of a graph as dense arrays, in variables of TensorFlow's."""

import dataclasses

import numpy as np
import tensorflow as tf

from sok_compat.lookup.dense_tables import DenseTable, dense_tables
from sok_compat.lookup.group import Lookup, lookup_group
from sok_compat.runtime.op_library import ops
from sok_compat.tables.table import Table, is_part_of_table

tf1 = tf.compat.v1

_END = np.array([np.iinfo(np.int64).max])  # behind the keys; see DenseTable


class ArraysOfTables:
    """Makes them as lookups ask for them, and fills them from the tables."""

    def __init__(self):
        self._arrays = {}  # {reference to a Table: _Arrays}

    def of(self, table):
        """The DenseTable of a Table, for `dense_tables`."""
        if table.ref() not in self._arrays:
            with tf.init_scope():
                self._arrays[table.ref()] = _Arrays(table)
        return self._arrays[table.ref()].dense

    def variables(self):
        """Those that hold the arrays."""
        return [each for arrays in self._arrays.values() for each in arrays.variables]

    @staticmethod
    def other_variables():
        """Those of the graph that are no tables."""
        variables = tf1.global_variables()
        return [variable for variable in variables if not is_part_of_table(variable)]

    def fill(self, session):
        """Copies what the tables hold."""
        for arrays in self._arrays.values():
            arrays.fill(session)


class _Arrays:
    def __init__(self, table):
        """Adds the ops; raises ValueError where stock ops cannot know first values."""
        name = f"{table.table_name}/served_"
        self._keys = _variable(f"{name}keys", tf.int64, [None])
        self._rows = _variable(f"{name}rows", tf.float32, [None, table.dim])
        self.variables = self._keys, self._rows
        self._held = ops.sok_export_table(table.table_handle)
        self._absent_rows = _rows_of_absent_keys(table)
        self._period = tf.compat.dimension_value(self._absent_rows.shape[0])
        self._feeds = [tf1.placeholder(each.dtype, each.shape) for each in self.variables]
        self._assign = [
            tf.raw_ops.AssignVariableOp(resource=variable.handle, value=feed)
            for variable, feed in zip(self.variables, self._feeds)
        ]

    @property
    def dense(self):
        return DenseTable(*self.variables, self._period)

    def fill(self, session):
        absent_rows = self._absent_rows
        if not isinstance(absent_rows, np.ndarray):
            absent_rows = session.run(absent_rows)
        keys, rows = session.run(self._held)
        order = np.argsort(keys)
        arrays = np.append(keys[order], _END), np.concatenate([rows[order], absent_rows])
        session.run(self._assign, dict(zip(self._feeds, arrays)))


def _variable(name, dtype, shape):
    # Of no collection: checkpoints that the graph is restored from do not have it.
    return tf1.Variable(
        tf.zeros([each or 0 for each in shape], dtype),
        trainable=False,
        collections=[],
        use_resource=True,
        shape=tf.TensorShape(shape),
        name=name,
    )


def _rows_of_absent_keys(table):
    """A tensor, or array, [period, dim]."""
    first, history = table.first_value, table.history
    if history is not None and history.filter_freq:
        return np.full([1, table.dim], history.value_without_row, np.float32)
    if first.kind == "constant":
        return np.full([1, table.dim], first.low_or_mean, np.float32)
    if first.rows is not None:
        return first.rows
    if first.period is None:
        raise ValueError(
            f"with stock_ops keys that {table.table_name} does not have cannot start as its "
            f"first values, {first}, which only ops of sok_compat know: give missing_keys='zeros', "
            "or stock_ops=False"
        )
    first = dataclasses.replace(first, name=first.name or table.table_name)
    empty = Table(None, table.dim, first, seed=table.seed, collections=[])
    keys = tf.range(first.period, dtype=tf.int64)
    with dense_tables(None), tf.control_dependencies([empty.initializer]):
        (rows,) = lookup_group([Lookup(empty, keys)], insert=False)
    rows.set_shape([first.period, table.dim])
    return rows
