# SPDX-License-Identifier: Apache-2.0
"""Table initializers that load a checkpoint, also through tf.train.init_from_checkpoint.

Tables that it cannot load raise or are logged.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
from collections import abc

import tensorflow as tf

from sok_compat.checkpoint.parts.bucket_saveable import BucketSaveable
from sok_compat.checkpoint.parts.names_of_parts import suffix_of, whole_name
from sok_compat.checkpoint.streams.stored_tensors import tensors_in
from sok_compat.runtime import integrations
from sok_compat.runtime.tf_versions import variables_by_name
from sok_compat.tables.slots.slot_names import owner_by_name
from sok_compat.tables.slots.slot_variable import SlotVariable
from sok_compat.tables.table import Table

_logger = logging.getLogger(__name__)


def start_from(table: Table, checkpoint: str | os.PathLike[str], name: str | None = None) -> None:
    """Makes a table's initializer load its rows from a checkpoint, saved in any number of parts.

    Each rank loads the keys that it owns. Slots start with their initial values.

    Args:
      checkpoint: prefix of a checkpoint, or a folder, of which the latest is taken.
      name: of the whole table, or this part, in the checkpoint; the table's own if None.

    Raises:
      ValueError: there is no checkpoint, or it has no such table.
    """
    path = _path_of(checkpoint)
    name = (table.table_name if name is None else name).removesuffix(suffix_of(table))
    stored = tensors_in(path)
    if not any(re.fullmatch(rf"{re.escape(name)}(/part_\d+)?-keys", each) for each in stored):
        raise ValueError(
            f"{table.table_name} cannot start from the checkpoint {path}, which has neither "
            f"{name}-keys nor {name}/part_0-keys, nor another part; it has {sorted(stored)}"
        )
    with tf.init_scope(), tf.control_dependencies([table.initializer]):
        table.replace_initializer(BucketSaveable(table, name, slots=()).filled(path))


def initialize_tables_from_checkpoints() -> None:
    """Makes tf.train.init_from_checkpoint, from now on, load tables whose layout is
    BucketSaveable, and raise for others.

    The stock function replaces a variable's initializer by one that reads a single tensor; a table
    is several. For a scope, it takes the variables of tf.get_variable only. There a warning names
    the tables in the checkpoint that are not loaded. tf.train.warm_start calls it, and behaves the
    same.
    """
    integrations.when_there_are_tables(_change)


def _change():
    integrations.apply("tf.train.init_from_checkpoint", _initializing_tables)
    integrations.apply("tf.train.warm_start", _naming_tables)


def _initializing_tables(initialize):
    @functools.wraps(initialize)
    def initialize_others(checkpoint, assignment_map):
        is_mapping = isinstance(assignment_map, abc.Mapping)
        pairs = list(assignment_map.items() if is_mapping else assignment_map)
        tables = [v for v in tf.compat.v1.global_variables() if isinstance(v, Table)]
        others = [table for table in tables if not _can_start(table)]
        _raise_for_tables(pairs, others)
        started, left = [], []
        for source, target in pairs:
            whole = _named(target, tables)
            started += [(table, source) for table in whole]
            left += [] if whole else [(source, target)]
        for source, target in left:
            in_scope = [table for table in tables if _can_start(table)]
            names = [(table, _name_in_scope(table, source, target)) for table in in_scope]
            started += [(table, name) for table, name in names if name is not None]
        for table, name in started:
            start_from(table, checkpoint, name)
        stored = tensors_in(_path_of(checkpoint))
        with _hidden([table for table in tables if _can_start(table)]):
            initialize(checkpoint, left)
        _warn_of_tables_left_out(checkpoint, stored, left, others)

    return initialize_others


def _naming_tables(infer_name):
    """Makes tf.train.warm_start find a table's parts by the name of the whole."""

    @functools.wraps(infer_name)
    def infer_name_of_others(var):
        variables = tf.nest.flatten(var)
        for slot in variables:
            if isinstance(slot, SlotVariable):
                raise NotImplementedError(
                    f"tf.train.warm_start does not load {slot.op.name}, a slot of a table: name "
                    "tables by one regular expression, which selects trainable variables, or give "
                    "vars_to_warm_start a list of variables"
                )
        names = {whole_name(table) for table in variables if isinstance(table, Table)}
        return names.pop() if len(names) == 1 else infer_name(var)

    return infer_name_of_others


def _can_start(table):
    return table.storage.layout is BucketSaveable


def _named(target, tables):
    """The tables that can start among those meant by a variable, a list or a whole table's name."""
    if isinstance(target, str):
        return [t for t in tables if _can_start(t) and target in (t.table_name, whole_name(t))]
    given = getattr(target, "table_parts", target)
    given = given if isinstance(given, (list, tuple)) else [given]
    found = [table for table in given if isinstance(table, Table) and _can_start(table)]
    return found if len(found) == len(given) else []


@contextlib.contextmanager
def _hidden(tables):
    """Hides tables and their optimizer variables from TensorFlow's variables by name, while this is
    open."""
    by_name = variables_by_name()
    hidden = {n: v for n, v in by_name.items() if _is_or_is_of(v, tables)}
    for name in hidden:
        del by_name[name]
    try:
        yield
    finally:
        by_name.update(hidden)


def _is_or_is_of(variable, tables):
    name = f"/{variable.op.name}"
    if not any(variable is table or f"/{table.table_name}/" in name for table in tables):
        return False  # saves the search for its owner
    return any(owner is t for owner in (variable, owner_by_name(name[1:], tables)) for t in tables)


def _path_of(checkpoint):
    checkpoint = os.fspath(checkpoint)
    if not tf.io.gfile.isdir(checkpoint):
        return checkpoint
    path = tf.train.latest_checkpoint(checkpoint)
    if path is None:
        raise ValueError(f"there is no checkpoint in {checkpoint}")
    return path


def _instead(words):
    return (
        "restore tables after the initializers have run, with tf.train.Saver(tables).restore or "
        f"{words.restore}"
    )


def _raise_for_tables(pairs, tables):
    by_name = {table.table_name: table for table in tables}
    for _, target in pairs:
        given = by_name.get(target) if isinstance(target, str) else target
        for found in given if isinstance(given, (list, tuple)) else [given]:
            table = found.table if isinstance(found, SlotVariable) else found
            if isinstance(table, Table) and not (table is found and _can_start(table)):
                raise NotImplementedError(
                    f"tf.train.init_from_checkpoint does not load {found.op.name}, a table or a "
                    f"slot of one: {_instead(table.words)}"
                )


def _warn_of_tables_left_out(checkpoint, stored, pairs, tables):
    left_out = [
        table
        for source, target in pairs
        for table in tables
        if isinstance(target, str) and f"{_name_in_scope(table, source, target)}/keys" in stored
    ]
    if left_out:
        _logger.warning(
            "tf.train.init_from_checkpoint does not load the tables %s, which %s holds: %s",
            [table.table_name for table in left_out],
            checkpoint,
            _instead(left_out[0].words),
        )


def _name_in_scope(table, source, target):
    """The whole table's name in a checkpoint whose scope `source` maps to `target`; None if the
    table is in another scope."""
    if not isinstance(target, str) or not target.endswith("/"):
        return None
    source, target = ("" if scope == "/" else scope for scope in (source, target))
    name = whole_name(table)
    return source + name[len(target) :] if name.startswith(target) else None
