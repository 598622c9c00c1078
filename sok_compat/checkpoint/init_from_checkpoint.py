# SPDX-License-Identifier: Apache-2.0
"""tf.train.init_from_checkpoint and tables: what it cannot load is not left out in silence."""

import functools
import logging
from collections import abc

import tensorflow as tf

from sok_compat.runtime.tf_versions import checkpoint_utils
from sok_compat.tables.slot_variable import SlotVariable
from sok_compat.tables.table import EmbeddingVariable

_logger = logging.getLogger(__name__)
_INSTEAD = (
    "restore tables after the initializers have run, with tf.train.Saver(tables).restore or "
    "sok.Saver().restore_from_file"
)


def refuse_to_initialize_tables():
    """Makes tf.train.init_from_checkpoint raise for tables, from now on.

    It gives a variable another initializer, by the name of one tensor. A table is several, and its
    slots go with it. Where it is given a scope, of which it takes what tf.get_variable has made, a
    warning names the tables that the checkpoint holds.
    """
    initialize = checkpoint_utils._init_from_checkpoint
    if getattr(initialize, "knows_tables", False):
        return

    @functools.wraps(initialize)
    def initialize_others(checkpoint, assignment_map):
        is_mapping = isinstance(assignment_map, abc.Mapping)
        pairs = list(assignment_map.items() if is_mapping else assignment_map)
        tables = [v for v in tf.compat.v1.global_variables() if isinstance(v, EmbeddingVariable)]
        _raise_for_tables(pairs, tables)
        initialize(checkpoint, pairs)
        _warn_of_tables_left_out(checkpoint, pairs, tables)

    initialize_others.knows_tables = True
    checkpoint_utils._init_from_checkpoint = initialize_others


def _raise_for_tables(pairs, tables):
    by_name = {table.m_var_name: table for table in tables}
    for _, target in pairs:
        found = by_name.get(target) if isinstance(target, str) else target
        if isinstance(found, (EmbeddingVariable, SlotVariable)):
            raise NotImplementedError(
                f"tf.train.init_from_checkpoint does not load {found.op.name}, a table or a slot "
                f"of one: {_INSTEAD}"
            )


def _warn_of_tables_left_out(checkpoint, pairs, tables):
    held = {name for name, _ in tf.train.list_variables(checkpoint)}
    left_out = [
        table.m_var_name
        for source, target in pairs
        for table in tables
        if isinstance(target, str) and _keys_of(table, source, target) in held
    ]
    if left_out:
        _logger.warning(
            "tf.train.init_from_checkpoint does not load the tables %s, which %s holds: %s",
            left_out,
            checkpoint,
            _INSTEAD,
        )


def _keys_of(table, source, target):
    """The name of the table's keys in a checkpoint whose scope `source` goes to `target`; None
    where the table is in another scope."""
    source, target = ("" if scope == "/" else scope for scope in (source, target))
    name = f"{table.m_var_name}/keys"
    return source + name[len(target) :] if name.startswith(target) else None
