# SPDX-License-Identifier: Apache-2.0
"""tf.train.Checkpoint and tables: what it saves and restores by objects, all ranks together."""

import dataclasses
import functools
import threading
import weakref

import tensorflow as tf

from sok_compat.checkpoint.files_of_rank_0 import VARIABLE, are_on_rank_0
from sok_compat.checkpoint.objects_on_rank_0 import restore_objects_from_rank_0
from sok_compat.checkpoint.streamed_save import StreamedTable, save_checkpoint
from sok_compat.runtime import integrations
from sok_compat.runtime.shared_texts import value_of_rank_0
from sok_compat.runtime.tf_versions import (
    BaseSaverBuilder,
    SaveableCompatibilityConverter,
    Variable,
)
from sok_compat.tables.slot_names import owner_by_name
from sok_compat.tables.table import Table, has_rows_of_a_rank, is_part_of_table

_held = weakref.WeakKeyDictionary()  # {MultiDeviceSaver: what it has of tables}
_last = threading.local()  # .path: of the last checkpoint that was saved with other ranks
_graphs = weakref.WeakSet()  # where checkpoints are saved with other ranks


@dataclasses.dataclass(frozen=True)
class _Held:
    tables: list  # StreamedTables
    specs: list  # SaveSpecs of the others


def save_objects_with_tables():
    """Makes every tf.train.Checkpoint save and restore tables as tf.train.Saver does."""
    for name, wrap in (
        ("tf.train.Checkpoint.__init__", _holding_tables),
        ("tf.train.Checkpoint.save", _saving_tables),
        ("tf.train.Checkpoint.restore", _restoring_tables),
        ("tf.train._update_checkpoint_state_internal", _recording_on_rank_0),
        ("tf.train._record_state", _managing_on_rank_0),
        ("tf.train._sweep", _managing_on_rank_0),
        ("tf.keras.callbacks.BackupAndRestore", _deleting_on_rank_0),
    ):
        integrations.apply(name, wrap)
    restore_objects_from_rank_0()


def _holding_tables(init):
    @functools.wraps(init)
    def init_with_tables(
        self, serialized_tensors, registered_savers=None, call_with_mapped_captures=None
    ):
        tables, others = _split(serialized_tensors)
        if tables:
            _raise_for_others(tables, registered_savers)
            _raise_for_ordinary_slots(others, tables)
            _held[self] = _Held(tables, list(_specs(others)))
        init(self, others, registered_savers, call_with_mapped_captures)

    return init_with_tables


def _split(serialized_tensors):
    """([StreamedTable], the rest)"""
    tables, others = [], type(serialized_tensors)()
    for owner, tensors in serialized_tensors.items():
        saveables = owner.saveables if isinstance(owner, SaveableCompatibilityConverter) else []
        found = [saveable for saveable in saveables if isinstance(saveable, StreamedTable)]
        tables += found
        if not found:
            others[owner] = tensors
    return tables, others


def _raise_for_others(tables, registered_savers):
    if registered_savers:
        names = [each.table.table_name for each in tables]
        raise NotImplementedError(
            f"tf.train.Checkpoint does not save the tables {names} beside objects that have savers "
            f"of their own, {sorted(registered_savers)}: use a checkpoint for each"
        )


def _raise_for_ordinary_slots(others, tables):
    """For variables that optimizers have made as slots: they have rows by row id, on each rank."""
    for variable in others:
        if (
            not isinstance(variable, Variable)
            or is_part_of_table(variable)
            or not has_rows_of_a_rank(variable)
        ):
            continue
        known = [table for each in tables for table in each.tables]
        table = owner_by_name(variable.name.partition(":")[0], known)
        raise NotImplementedError(
            f"{variable.name}, which an optimizer has made for the table {table.table_name}, does "
            "not know its keys: make the optimizer's slots in an OptimizerScope, around "
            "apply_gradients or by OptimizerScope(model.trainable_variables).build(optimizer), or "
            "take the one of the same name in keras.optimizers in the place of "
            "keras.optimizers.legacy"
        )


def _specs(serialized_tensors):
    for tensors in serialized_tensors.values():
        for name, given in tensors.items():
            by_slice = given if isinstance(given, dict) else {"": given}
            for slice_spec, tensor in by_slice.items():
                if not isinstance(tensor, BaseSaverBuilder.SaveSpec):
                    tensor = BaseSaverBuilder.SaveSpec(tensor, slice_spec, name)
                yield tensor


def _saving_tables(save):
    @functools.wraps(save)
    def save_with_tables(self, file_prefix, options=None):
        held = _held.get(self)
        if held is None:
            return save(self, file_prefix, options)
        is_shared = any(each.table.ranks.size > 1 for each in held.tables)
        if not tf.executing_eagerly():
            _check_disk_is_shared(held)
            if is_shared:
                _graphs.add(tf.compat.v1.get_default_graph())
            return save_checkpoint(file_prefix, held.tables, held.specs)

        # One step of all ranks, which fails as a whole.
        @tf.function(autograph=False, input_signature=[tf.TensorSpec([], tf.string)])
        def save_all(path):
            save_checkpoint(path, held.tables, held.specs)

        path = tf.convert_to_tensor(file_prefix)
        save_all.get_concrete_function()(path)
        _last.path = path.numpy().decode() if is_shared else None
        return None

    return save_with_tables


def _restoring_tables(restore):
    @functools.wraps(restore)
    def restore_with_tables(self, file_prefix, options=None):
        held = _held.get(self)
        if held is None:
            return restore(self, file_prefix, options)
        if not tf.executing_eagerly():
            _check_disk_is_shared(held)
        restored, found = [], {}
        for each in held.tables:  # first: what does not fit leaves all as it was
            each.path, each.restored = tf.convert_to_tensor(file_prefix), restored
            found[each.name] = each.restore(None, None)
        return {**found, **(restore(self, file_prefix, options) or {})}

    return restore_with_tables


def _check_disk_is_shared(held):
    if are_on_rank_0() and any(each.table.ranks.size > 1 for each in held.tables):
        raise NotImplementedError(
            f"{VARIABLE}=1 is for tf.train.Saver, also in sessions and estimators, and for "
            "tf.train.Checkpoint in eager mode: in a graph, tf.train.Checkpoint and Keras save and "
            "restore tables of several ranks on a disk that all of them share"
        )


def _recording_on_rank_0(record):
    @functools.wraps(record)
    def record_on_rank_0(file_path):
        if not _is_of_ranks(file_path):
            return record(file_path)
        return _value_of_rank_0(lambda: record(file_path))

    return record_on_rank_0


def _managing_on_rank_0(manage):
    @functools.wraps(manage)
    def manage_on_rank_0(self):
        if not _is_of_ranks(self.latest_checkpoint):
            return manage(self)

        def manage_here():
            manage(self)
            return [list(self._maybe_delete.items()), self._last_preserved_timestamp]

        kept, self._last_preserved_timestamp = _value_of_rank_0(manage_here)
        self._maybe_delete.clear()
        self._maybe_delete.update(kept)
        return None

    return manage_on_rank_0


def _deleting_on_rank_0(delete):
    @functools.wraps(delete)
    def delete_on_rank_0(self):
        variables = self._model.variables
        if not any(isinstance(each, Table) and each.ranks.size > 1 for each in variables):
            return delete(self)
        return _value_of_rank_0(lambda: delete(self))

    return delete_on_rank_0


def _is_of_ranks(path):
    """Whether that checkpoint is one that all ranks have saved, and rank 0 looks after."""
    if tf.executing_eagerly():
        return path is not None and getattr(_last, "path", None) == path
    return tf.compat.v1.get_default_graph() in _graphs


def _value_of_rank_0(make):
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    return value_of_rank_0("tf.train.Checkpoint", make, graph)
