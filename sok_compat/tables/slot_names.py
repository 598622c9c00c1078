# SPDX-License-Identifier: Apache-2.0
"""Whose slot a variable is, by its name: optimizers give no other sign."""

import tensorflow as tf


def owner_by_name(variable_name, tables):
    """The table that an optimizer made a variable for; None if there is none.

    A slot's name has the table's in it, after the variable scope that is around, if any. So the
    name of a table in a name scope, 'tower/x', can hold that of another, 'x': the longest one owns.

    Args:
      variable_name: without ':0'.
      tables: Tables, besides those of the graph.
    """
    owners = [
        table
        for table in (*tables, *_tables_of_graph())
        if f"/{table.table_name}/" in f"/{variable_name}/"
    ]
    return max(owners, key=lambda table: len(table.table_name), default=None)


def is_named_as_by_newer_keras(variable_name, table):
    """Whether it is a slot of an optimizer of tf.keras.optimizers: 'm/<table>'; all others name
    theirs '<table>/m'.

    Args:
      variable_name: of a slot, without ':0'.
      table: the Table that it may belong to.
    """
    scope, _, last = variable_name.rpartition("/")
    owner = f"/{table.table_name}"
    return f"/{scope}/{last}".endswith(owner) and not f"/{scope}".endswith(owner)


def _tables_of_graph():
    """Nothing in eager mode, where no graph knows its variables."""
    with tf.init_scope():
        variables = [] if tf.executing_eagerly() else tf.compat.v1.global_variables()
    return [variable for variable in variables if hasattr(variable, "table_name")]
