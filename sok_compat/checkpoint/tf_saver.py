# SPDX-License-Identifier: Apache-2.0
"""tf.train.Saver and tables: which of a saver's variables are saved together, as what."""

import contextlib
import functools

import tensorflow as tf

from sok_compat.checkpoint.keras_files import refuse_tables_in_h5_files
from sok_compat.checkpoint.names_of_parts import around_part
from sok_compat.checkpoint.object_savers import save_objects_with_tables
from sok_compat.checkpoint.object_tables import ObjectTable, ordinary_slots
from sok_compat.checkpoint.rows_saveable import RowsSaveable
from sok_compat.checkpoint.saved_parts import joined_parts
from sok_compat.checkpoint.self_reading import CompanionSaveable, with_self_reading
from sok_compat.checkpoint.sessions import share_checkpoints
from sok_compat.checkpoint.streamed_save import StreamedTable, save_checkpoint
from sok_compat.runtime import integrations
from sok_compat.runtime.tf_versions import Variable
from sok_compat.tables.slot_names import owner_by_name
from sok_compat.tables.slot_variable import SlotVariable
from sok_compat.tables.table import Table


def save_tables_in_checkpoints():
    """Makes every tf.train.Saver and tf.train.Checkpoint that is built from now on save tables with
    their slots, on all ranks that share them.

    TensorFlow asks no variable how it is to be saved by name: a saver writes its value, and the
    value of a table does not tell its keys. So tables are replaced where savers are built.
    """
    Table.make_saveable = staticmethod(ObjectTable)
    save_objects_with_tables()
    refuse_tables_in_h5_files()
    integrations.apply("tf.train.Saver", _saving_tables)
    share_checkpoints()


def _saving_tables(build):
    @functools.wraps(build)
    def build_with_tables(self, names_to_saveables, *args, **kwargs):
        with with_self_reading(self), _saving_streams(self):
            return build(self, with_tables(names_to_saveables), *args, **kwargs)

    return build_with_tables


@contextlib.contextmanager
def _saving_streams(builder):
    """Lets a saver's builder, while this is open, build for StreamedTables, too."""
    add, add_sharded = builder._AddSaveOps, builder._AddShardedSaveOps
    base_of = getattr(builder, "base_of", lambda tables: None)  # of an IncrementalSaver

    def add_save_ops(path, saveables):
        tables = [each for each in saveables if isinstance(each, StreamedTable)]
        if not tables:
            return add(path, saveables)
        others = [each for each in saveables if not isinstance(each, StreamedTable)]
        specs = [spec for each in others for spec in each.specs]
        with tf.control_dependencies([save_checkpoint(path, tables, specs, base_of(tables))]):
            return tf.identity(path)

    def add_sharded_save_ops(path, per_device):
        saveables = [each for _, of_device in per_device for each in of_device]
        if not any(isinstance(each, StreamedTable) for each in saveables):
            return add_sharded(path, per_device)
        return add_save_ops(path, saveables)

    builder._AddSaveOps, builder._AddShardedSaveOps = add_save_ops, add_sharded_save_ops
    try:
        yield
    finally:
        del builder._AddSaveOps, builder._AddShardedSaveOps


def with_tables(names_to_saveables):
    """A saver's variables, with one StreamedTable in the place of each table and its slots.

    A table that is named brings all its slots, and a slot its table, so that neither is saved
    without the other. Its `saver_layout` says what the checkpoint holds of it, a RowsSaveable or a
    BucketSaveable; with the second, default rows come along. One of tables that hold parts of whole
    arrays brings all of them, as a PartsSaveable.

    Args:
      names_to_saveables: what a tf.train.Saver takes: a list of variables, or a dict
        {name: variable}.

    Returns:
      The same kind of object; the given one if there is no table in it.

    Raises:
      NotImplementedError: there is a table, and it is eager mode.
      ValueError: a table came with an imported graph.
    """
    is_dict = isinstance(names_to_saveables, dict)
    items = _items(names_to_saveables)
    if items is None:
        return names_to_saveables  # TensorFlow says what is wrong with it
    others, names, tables = [], {}, {}
    items, saveables = joined_parts(items)
    for name, variable in items:
        table = _table_of(variable)
        if table is None:
            others.append((name, variable))
        else:
            tables[table.ref()] = table
            names[variable.ref()] = name
    _raise_for_imported_tables(variable for _, variable in others)
    if not tables and not saveables:
        return names_to_saveables
    if tf.executing_eagerly():  # where nothing is joined
        found = list(tables.values())
        raise NotImplementedError(
            f"tf.train.Saver does not save tables in eager mode, got "
            f"{[table.table_name for table in found]}: use tf.train.Checkpoint, or "
            f"{found[0].words.save} for tables alone"
        )
    for table in tables.values():
        others, saveable = _saveable(table, names, others)
        saveables.append(saveable)
    others, companions = _without_companions(others, tables.values())
    saveables += companions
    if is_dict:
        return {**dict(others), **{saveable.name: saveable for saveable in saveables}}
    return [variable for _, variable in others] + saveables


def _items(names_to_saveables):
    """[(name or None, variable)], of which each part of a partitioned table is one; None where it
    is neither a dict nor a list."""
    if isinstance(names_to_saveables, dict):
        given = list(names_to_saveables.items())
    elif isinstance(names_to_saveables, (list, tuple, set)):
        given = [(None, variable) for variable in tf.nest.flatten(list(names_to_saveables))]
    else:
        return None
    items = []
    for name, variable in given:
        for part in getattr(variable, "table_parts", [variable]):
            suffix = "" if part is variable else part.part.suffix
            items.append((name and name + suffix, part))
    return items


def _table_of(variable):
    if isinstance(variable, Table):
        return variable
    return variable.table if isinstance(variable, SlotVariable) else None


def _saveable(table, names, others):
    """(others without the ordinary variables that are saved with it, the StreamedTable)."""
    # A slot has no name here where only its table was given.
    slots = [
        (names[slot.ref()] or slot.op.name) if slot.ref() in names else None for slot in table.slots
    ]
    name = names.get(table.ref()) or table.op.name
    if table.saver_layout is not None:
        return others, table.saver_layout(table, name, slots)
    by_row_id = {slot.ref(): slot.op.name for slot in ordinary_slots(table)}
    kept = []
    for other in others:
        given, variable = other
        if isinstance(variable, Variable) and variable.ref() in by_row_id:
            by_row_id[variable.ref()] = given or variable.op.name
        else:
            kept.append(other)
    variables = [(title, ref.deref()) for ref, title in by_row_id.items()]
    return kept, RowsSaveable(table, name, slots, variables)


def _without_companions(others, tables):
    """(others, [CompanionSaveable]): what stands beside tables that may come from other parts than
    they are saved in, or from a checkpoint of another program: default rows, and scalars of
    optimizers, which are equal for all parts."""
    tables = [table for table in tables if table.saver_layout is not None]
    kept = [(name, other) for name, other in others if not isinstance(other, Variable)]
    given = {each.ref(): (name, each) for name, each in others if isinstance(each, Variable)}
    companions = []
    rows_of_tables = [table.first_value.rows for table in tables]
    for ref in dict.fromkeys(rows.ref() for rows in rows_of_tables if rows is not None):
        name, variable = given.pop(ref, (None, ref.deref()))
        companions.append(CompanionSaveable(variable, name or variable.op.name, is_required=False))
    for name, variable in given.values():
        table = owner_by_name(variable.op.name, tables) if variable.shape.rank == 0 else None
        if any(table is each for each in tables):
            saved_as = name or variable.op.name
            head, tail = around_part(saved_as, [table.table_name], table.part)
            elsewhere = [f"{head}{part}{tail}" for part in ("/part_0", "")]
            otherwise = getattr(variable, "value_if_not_saved", None)
            is_required = otherwise is None
            companions.append(
                CompanionSaveable(variable, saved_as, elsewhere, is_required, otherwise)
            )
        else:
            kept.append((name, variable))
    return kept, companions


def _raise_for_imported_tables(variables):
    """A meta graph has variables, but not that they are tables and slots."""
    for variable in variables:
        handle = getattr(variable, "handle", None)
        if not tf.is_symbolic_tensor(handle):  # also in eager mode, where no graph is imported
            continue
        if any(
            op.type in ("SokTableInitialize", "SokTableAttachSlot") for op in handle.consumers()
        ):
            raise ValueError(
                f"{variable.name} belongs to a table of an imported graph, which only the saver "
                "that tf.train.import_meta_graph returns can save: use that one, or build the "
                "graph from the script"
            )
