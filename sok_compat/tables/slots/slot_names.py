# SPDX-License-Identifier: Apache-2.0
"""Finds the table of a slot by the slot's name; optimizers give no other sign."""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf

from sok_compat.tables.interface import TableInterface


@tf.autograph.experimental.do_not_convert
def owner_by_name(variable_name: str, tables: Iterable[TableInterface]) -> TableInterface | None:
    """Returns the table, of the graph or of `tables`, that an optimizer made a variable for, or
    None.

    A slot's name contains its table's, perhaps after a variable scope. Of several such tables, as
    'x' and 'tower/x', the one with the longest name owns the slot.
    """
    owners = [
        table
        for table in (*tables, *_tables_of_graph())
        if f"/{table.table_name}/" in f"/{variable_name}/"
    ]
    owner = max(owners, key=lambda table: len(table.table_name), default=None)
    return owner


def is_of_another(variable_name: str, table: TableInterface, others: Iterable[tf.Variable]) -> bool:
    """Whether a slot whose name contains a table's is of one of the `others`: 'm/user/kernel' is of
    'user/kernel', not of the table 'user'."""
    names = [each.name.partition(":")[0] for each in others if each is not table]
    return any(
        len(name) > len(table.table_name) and f"/{name}/" in f"/{variable_name}/" for name in names
    )


def is_named_as_by_newer_keras(variable_name: str, table: TableInterface) -> bool:
    """Whether an optimizer of tf.keras.optimizers made a slot of a table: it names slots
    'm/<table>', all others '<table>/m'."""
    scope, _, last = variable_name.rpartition("/")
    owner = f"/{table.table_name}"
    return f"/{scope}/{last}".endswith(owner) and not f"/{scope}".endswith(owner)


def _tables_of_graph() -> list[TableInterface]:
    """Tables of the graph; none in eager mode."""
    with tf.init_scope():
        variables = [] if tf.executing_eagerly() else tf.compat.v1.global_variables()
    return [variable for variable in variables if hasattr(variable, "table_name")]
