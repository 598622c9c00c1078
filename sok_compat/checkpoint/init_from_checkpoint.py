# SPDX-License-Identifier: Apache-2.0
"""tf.train.init_from_checkpoint and tables: what it cannot load is not left out in silence."""

import functools
import logging
from collections import abc

import tensorflow as tf

from sok_compat.runtime import integrations
from sok_compat.tables.slot_variable import SlotVariable
from sok_compat.tables.table import Table

_logger = logging.getLogger(__name__)


def _instead(words):
    return (
        "restore tables after the initializers have run, with tf.train.Saver(tables).restore or "
        f"{words.restore}"
    )


def refuse_to_initialize_tables():
    """Makes tf.train.init_from_checkpoint raise for tables, from now on.

    It gives a variable another initializer, by the name of one tensor. A table is several, and its
    slots go with it. Where it is given a scope, of which it takes what tf.get_variable has made, a
    warning names the tables that the checkpoint holds.
    """
    integrations.apply("tf.train.init_from_checkpoint", _initializing_others)


def _initializing_others(initialize):
    @functools.wraps(initialize)
    def initialize_others(checkpoint, assignment_map):
        is_mapping = isinstance(assignment_map, abc.Mapping)
        pairs = list(assignment_map.items() if is_mapping else assignment_map)
        tables = [v for v in tf.compat.v1.global_variables() if isinstance(v, Table)]
        _raise_for_tables(pairs, tables)
        initialize(checkpoint, pairs)
        _warn_of_tables_left_out(checkpoint, pairs, tables)

    return initialize_others


def _raise_for_tables(pairs, tables):
    by_name = {table.table_name: table for table in tables}
    for _, target in pairs:
        found = by_name.get(target) if isinstance(target, str) else target
        table = found.table if isinstance(found, SlotVariable) else found
        if isinstance(table, Table):
            raise NotImplementedError(
                f"tf.train.init_from_checkpoint does not load {found.op.name}, a table or a slot "
                f"of one: {_instead(table.words)}"
            )


def _warn_of_tables_left_out(checkpoint, pairs, tables):
    held = {name for name, _ in tf.train.list_variables(checkpoint)}
    left_out = [
        table
        for source, target in pairs
        for table in tables
        if isinstance(target, str) and _keys_of(table, source, target) in held
    ]
    if left_out:
        _logger.warning(
            "tf.train.init_from_checkpoint does not load the tables %s, which %s holds: %s",
            [table.table_name for table in left_out],
            checkpoint,
            _instead(left_out[0].words),
        )


def _keys_of(table, source, target):
    """The name of the table's keys in a checkpoint whose scope `source` goes to `target`; None
    where the table is in another scope."""
    source, target = ("" if scope == "/" else scope for scope in (source, target))
    name = f"{table.table_name}/keys"
    return source + name[len(target) :] if name.startswith(target) else None
