# SPDX-License-Identifier: Apache-2.0
"""Which variables are tables, slots or other variables with rows of this rank."""

from __future__ import annotations

import weakref

import tensorflow as tf

from sok_compat.ranks.identity import Ranks, connect_ranks
from sok_compat.runtime.tf_versions import members
from sok_compat.tables.interface import TableInterface
from sok_compat.tables.plane_variable import PlaneVariable
from sok_compat.tables.slots.slot_names import is_named_as_by_newer_keras, owner_by_name

# {unique id: table}; graphs know theirs
_eager_tables: weakref.WeakValueDictionary[str, TableInterface] = weakref.WeakValueDictionary()


def note_eager_table(table: TableInterface) -> None:
    """Registers a table of eager mode, for as long as it lives."""
    _eager_tables[members.unique_id(table)] = table


def connected_ranks(user: str = "sok_compat.tables.connected_ranks()") -> Ranks:
    """Returns the Ranks of this process, connected: Horovod's, if the script initialized it.

    Args:
      user: what calls this, for messages.

    Raises:
      RuntimeError: the script was launched as one of several ranks, but Horovod is not ready.
    """
    return connect_ranks(has_rows_of_a_rank, is_shared_table, user)


@tf.autograph.experimental.do_not_convert
def is_part_of_table(variable: tf.Variable) -> bool:
    """Whether a variable is a table or a slot, with rows of this rank."""
    return isinstance(variable, PlaneVariable)


@tf.autograph.experimental.do_not_convert
def has_rows_of_a_rank(variable: tf.Variable) -> bool:
    """Whether a variable is a table, a slot, or an ordinary variable in place of a slot."""
    return is_part_of_table(variable) or table_of_ordinary_slot(variable) is not None


def table_of_ordinary_slot(variable: tf.Variable) -> TableInterface | None:
    """The table for which an optimizer made an ordinary variable as a slot, as those of
    tf.keras.optimizers do: its shape fits the table's, and its name contains the table's."""
    if is_part_of_table(variable) or getattr(variable, "trainable", True):
        return None
    if not hasattr(variable, "name") or variable.shape.rank != 2:
        return None
    # Several tables may have one name; the slot belongs to one of its shape.
    alike = [table for table in _eager_tables.values() if _fits(variable, table)]
    table = owner_by_name(variable.name.partition(":")[0], alike)
    return table if table is not None and _fits(variable, table) else None


def _fits(variable, table):
    if table.shape.is_fully_defined():
        return variable.shape == table.shape
    # A table that grows, [None, dim], of which alone Keras's newer optimizers make such variables:
    # slots of other variables in a scope of its name have as many columns, perhaps.
    name = variable.name.partition(":")[0]
    is_named = is_named_as_by_newer_keras(name, table)
    return is_named and table.shape.is_compatible_with(variable.shape)


def is_shared_table(variable: tf.Variable) -> bool:
    """Whether a variable is a table with rows on several ranks; gradients are sums over these."""
    return isinstance(variable, TableInterface) and variable.placement.is_spread
