# SPDX-License-Identifier: Apache-2.0
"""Tables in tf.train.Saver: groups a saver's variables into saveable objects."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from sok_compat.checkpoint.objects.keras_files import refuse_tables_in_h5_files
from sok_compat.checkpoint.objects.object_savers import save_objects_with_tables
from sok_compat.checkpoint.parts.names_of_parts import around_part, suffix_of, whole_name
from sok_compat.checkpoint.parts.object_tables import object_saveable
from sok_compat.checkpoint.parts.rows_saveable import RowsSaveable
from sok_compat.checkpoint.parts.saved_parts import joined_parts
from sok_compat.checkpoint.saver.imported_tables import (
    ImportedSlot,
    ImportedTable,
    imported_plane,
    mark_imported_parts,
)
from sok_compat.checkpoint.sessions.restored_sessions import share_checkpoints
from sok_compat.checkpoint.streams.checked_restore import CheckedRestore, StoredTensor
from sok_compat.checkpoint.streams.progress import SAVED_BYTES, bytes_in
from sok_compat.checkpoint.streams.self_reading import (
    CompanionSaveable,
    FirstRowsSaveable,
    RefusedSaveable,
    SelfReadingSaveable,
)
from sok_compat.checkpoint.streams.streamed_save import StreamedTable, save_checkpoint
from sok_compat.runtime import integrations
from sok_compat.runtime.tf_versions import BulkSaverBuilder, Variable
from sok_compat.tables.slots.slot_names import owner_by_name
from sok_compat.tables.slots.slot_variable import SlotVariable
from sok_compat.tables.stored.description import description_of
from sok_compat.tables.stored.storage import Storage
from sok_compat.tables.table import Table


def save_tables_in_checkpoints() -> None:
    """Makes every tf.train.Saver and tf.train.Checkpoint built from now on save tables and their
    slots, on all ranks that share them.

    By name, TensorFlow saves a variable's value; a table's value does not include its keys. So
    tables are replaced when a saver is built. A saver with a custom builder, or built before the
    first table, raises.
    """
    Storage.make_saveable = object_saveable
    integrations.when_there_are_tables(_change)


def _change():
    save_objects_with_tables()
    refuse_tables_in_h5_files()
    integrations.apply("tf.train.Saver, its builder", lambda builder: SaverBuilder)
    share_checkpoints()


class SaverBuilder(BulkSaverBuilder):
    """Builds a tf.train.Saver's ops, also for StreamedTables and SelfReadingSaveables.

    saved_id: the id of the checkpoint that was saved, a scalar string tensor; None without tables.
    """

    saved_id: tf.Tensor | None = None

    def base_of(self, tables: list[StreamedTable]) -> tf.Tensor | None:
        """The input `base` of `save_checkpoint`; None, as whole checkpoints have no base."""
        del tables
        return None

    def _build_internal(self, names_to_saveables, *args, **kwargs):
        return super()._build_internal(with_tables(names_to_saveables), *args, **kwargs)

    def _AddSaveOps(self, filename_tensor, saveables):  # noqa: N802  TensorFlow's name
        tables = [each for each in saveables if isinstance(each, StreamedTable)]
        if not tables:
            return super()._AddSaveOps(filename_tensor, saveables)
        others = [each for each in saveables if not isinstance(each, StreamedTable)]
        specs = [spec for each in others for spec in each.specs]
        self.saved_id = save_checkpoint(filename_tensor, tables, specs, self.base_of(tables))
        tf.identity(bytes_in(part for each in tables for part in each.tables), name=SAVED_BYTES)
        with tf.control_dependencies([self.saved_id]):
            return tf.identity(filename_tensor)

    def _AddShardedSaveOps(self, filename_tensor, per_device):  # noqa: N802  likewise
        saveables = _with_tables_of_devices(per_device)
        if not saveables:
            return super()._AddShardedSaveOps(filename_tensor, per_device)
        return self._AddSaveOps(filename_tensor, saveables)

    def _AddRestoreOps(  # noqa: N802  likewise
        self, filename_tensor, saveables, restore_sequentially, reshape, *args, **kwargs
    ):
        add = super()._AddRestoreOps
        given = restore_sequentially, reshape
        if not any(isinstance(each, StreamedTable) for each in saveables):
            return add(filename_tensor, saveables, *given, *args, **kwargs)
        self_reading = [each for each in saveables if isinstance(each, SelfReadingSaveable)]
        tensors = [
            StoredTensor.of(spec, None if reshape or len(each.specs) > 1 else each.op)
            for each in saveables
            if each not in self_reading
            for spec in each.specs
        ]
        restore = CheckedRestore(filename_tensor, self_reading, tensors)
        restored = add(restore.path, self_reading, *given, *args, **kwargs)
        others = [each for each in saveables if each not in self_reading]
        if others:
            with tf.control_dependencies([restored]):
                path = tf.identity(restore.path)
            restored = add(path, others, *given, *args, **kwargs)
        return restore.end(restored)

    def _AddShardedRestoreOps(  # noqa: N802  likewise
        self, filename_tensor, per_device, restore_sequentially, reshape
    ):
        given = restore_sequentially, reshape
        saveables = _with_tables_of_devices(per_device)
        if not saveables:
            return super()._AddShardedRestoreOps(filename_tensor, per_device, *given)
        return self._AddRestoreOps(filename_tensor, saveables, *given)

    def bulk_restore(
        self, filename_tensor: tf.Tensor, saveables: Iterable[Any], *args: Any, **kwargs: Any
    ) -> list[tf.Tensor | None]:
        """As TensorFlow's; SelfReadingSaveables get None, and read later."""
        self._check_version(saveables)
        restored: list[tf.Operation] = []
        tensors: list[tf.Tensor | None] = []
        others = [each for each in saveables if not isinstance(each, SelfReadingSaveable)]
        read = super().bulk_restore(filename_tensor, others, *args, **kwargs) if others else ()
        read_here = iter(read)
        for saveable in saveables:
            if isinstance(saveable, SelfReadingSaveable):
                saveable.path, saveable.restored = filename_tensor, restored
                tensors += [None] * len(saveable.specs)
            else:
                tensors += itertools.islice(read_here, len(saveable.specs))
        return tensors

    def _check_version(self, saveables):
        found = [each.name for each in saveables if isinstance(each, SelfReadingSaveable)]
        if found and self._write_version == tf.compat.v1.train.SaverDef.V1:
            raise NotImplementedError(
                f"tf.train.Saver(write_version=V1) cannot restore {found}, which are embedding "
                "variables or belong to them: leave write_version out, as V2 is the default"
            )


def _with_tables_of_devices(per_device):
    """All saveables of [(device, saveables)]; [] if there is no table among them."""
    saveables = [each for _, of_device in per_device for each in of_device]
    return saveables if any(isinstance(each, StreamedTable) for each in saveables) else []


def with_tables(names_to_saveables: Any) -> Any:
    """Replaces each table in a saver's variables, with its slots, by one StreamedTable.

    A table brings in all its slots, and a slot its table: neither is saved without the other. The
    table's layout is its class, RowsSaveable if None; a BucketSaveable also brings in
    default rows. A table that holds parts of whole arrays brings in all such tables, as one
    PartsSaveable.

    Args:
      names_to_saveables: the variables of a tf.train.Saver: a list, or a dict {name: variable}.

    Returns:
      An object of the same type; the given one if it has no table. If a table of an imported
      graph is saved as parts, a list of one saveable, which raises when it is run.

    Raises:
      NotImplementedError: there is a table in eager mode, or an optimizer's variable has rows of a
        table and is none of its slots.
    """
    is_dict = isinstance(names_to_saveables, dict)
    items = _items(names_to_saveables)
    if items is None:
        return names_to_saveables  # TensorFlow raises
    others, names, tables = [], {}, {}
    if not tf.executing_eagerly():
        mark_imported_parts()
    items, parts = joined_parts(items)
    saveables: list[Any] = [*parts]
    for name, variable in items:
        if _table_of(variable) is None:
            variable = imported_plane(variable) or variable
        table = _table_of(variable)
        if isinstance(table, ImportedTable) and not table.can_be_saved:
            return [_refused(table)]
        if table is None:
            others.append((name, variable))
        else:
            tables[table.ref()] = table
            names[variable.ref()] = name
    if not tables and not saveables:
        return names_to_saveables
    if tf.executing_eagerly():  # then there are no PartsSaveables
        found = list(tables.values())
        raise NotImplementedError(
            f"tf.train.Saver does not save tables in eager mode, got "
            f"{[table.table_name for table in found]}: use tf.train.Checkpoint, or "
            f"{found[0].words.save} for tables alone"
        )
    for table in tables.values():
        saveables.append(_saveable(table, names))
    others, companions = _without_companions(others, tables.values())
    _raise_for_rows_by_id(others, tables.values())
    saveables += [*companions, *_first_rows(tables.values(), names)]
    if is_dict:
        return {**dict(others), **{saveable.name: saveable for saveable in saveables}}
    return [variable for _, variable in others] + saveables


def _items(names_to_saveables):
    """[(name or None, variable)], one for each part of a partitioned table; None if the argument is
    neither a dict nor a list."""
    if isinstance(names_to_saveables, dict):
        given = list(names_to_saveables.items())
    elif isinstance(names_to_saveables, (list, tuple, set)):
        given = [(None, variable) for variable in tf.nest.flatten(list(names_to_saveables))]
    else:
        return None
    items = []
    for name, variable in given:
        for part in getattr(variable, "table_parts", [variable]):
            suffix = "" if part is variable else part.storage.part.suffix
            items.append((name and name + suffix, part))
    return items


def _table_of(variable):
    if isinstance(variable, (Table, ImportedTable)):
        return variable
    return variable.table if isinstance(variable, (SlotVariable, ImportedSlot)) else None


def _saveable(table, names):
    """The table's StreamedTable."""
    # A slot has no name here if only its table was given.
    slots = [
        (names[slot.ref()] or slot.op.name) if slot.ref() in names else None for slot in table.slots
    ]
    name = names.get(table.ref()) or table.op.name
    return (table.storage.layout or RowsSaveable)(table, name, slots)


def _without_companions(others, tables):
    """(others, [CompanionSaveable]) for tables that may be restored from other parts or another
    program's checkpoint.

    Companions of tables are optimizers' scalars, which are equal for all parts.
    """
    tables = [table for table in tables if table.storage.layout is not None]
    kept = [(name, other) for name, other in others if not isinstance(other, Variable)]
    given = {each.ref(): (name, each) for name, each in others if isinstance(each, Variable)}
    companions = []
    for name, variable in given.values():
        table = owner_by_name(variable.op.name, tables) if variable.shape.rank == 0 else None
        if any(table is each for each in tables):
            saved_as = name or variable.op.name
            head, tail = around_part(saved_as, [table.table_name], table.storage.part)
            elsewhere = [f"{head}{part}{tail}" for part in ("/part_0", "")]
            otherwise = description_of(variable.handle).get("value_if_not_saved")
            companions.append(CompanionSaveable(variable, saved_as, elsewhere, otherwise))
        else:
            kept.append((name, variable))
    return kept, companions


def _raise_for_rows_by_id(others, tables):
    """Raises for optimizers' ordinary variables of tables: their rows follow a rank's row ids."""
    capacities = {table.capacity for table in tables}
    for _, variable in others:
        if not isinstance(variable, Variable) or variable.trainable or not variable.shape.rank:
            continue
        num_rows = variable.shape.as_list()[0]
        table = owner_by_name(variable.op.name, tables) if num_rows in capacities else None
        if table is not None and num_rows == table.capacity:
            raise NotImplementedError(
                f"{variable.name}, which an optimizer has made for the table {table.table_name}, "
                "does not know its keys: start it as a constant of the table's shape, in "
                "sok_compat.OptimizerScope, or leave it out of tf.train.Saver"
            )


def _first_rows(tables, names):
    """[FirstRowsSaveable] of tables whose keys start with given rows."""
    by_rows = {}
    for table in tables:
        if table.first_value.rows is not None:
            by_rows.setdefault(table.first_value.rows.ref(), []).append(table)
    saveables = []
    for alike in by_rows.values():
        given = (names.get(alike[0].ref()) or "").removesuffix(suffix_of(alike[0]))
        wholes = [name for name in (given, whole_name(alike[0])) if name]
        saveables.append(FirstRowsSaveable(alike, [f"{name}/default_rows" for name in wholes]))
    return saveables


def _refused(table):
    """The RefusedSaveable for a table of an imported graph that cannot be saved."""
    return RefusedSaveable(
        f"{table.op.name}:0 belongs to a table of an imported graph, which only the saver that the "
        "meta graph was exported with can save or restore: use the one that "
        "tf.train.import_meta_graph returns, of a graph with a saver, or build the graph from the "
        "script"
    )
