# SPDX-License-Identifier: Apache-2.0
"""Tables in tf.train.Checkpoint, saved and restored by all ranks together."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sok_compat.checkpoint.objects.objects_on_rank_0 import restore_objects_from_rank_0
from sok_compat.checkpoint.parts.object_tables import ObjectTable
from sok_compat.checkpoint.streams.checked_restore import CheckedRestore, StoredTensor
from sok_compat.checkpoint.streams.files_of_rank_0 import are_on_rank_0
from sok_compat.checkpoint.streams.progress import bytes_in, bytes_to_read, logged
from sok_compat.checkpoint.streams.stored_tensors import tensors_in_readable
from sok_compat.checkpoint.streams.streamed_save import StreamedTable, save_checkpoint
from sok_compat.ranks.allgather_strings import value_of_rank_0
from sok_compat.ranks.identity import is_connected
from sok_compat.runtime import integrations
from sok_compat.runtime.graphs import state_of
from sok_compat.runtime.settings import CHECKPOINTS_ON_RANK_0
from sok_compat.runtime.tf_versions import (
    BaseSaverBuilder,
    SaveableCompatibilityConverter,
    Variable,
    functional_saver,
    members,
)
from sok_compat.tables.known_tables import table_of_ordinary_slot
from sok_compat.tables.slots.slot_names import is_of_another

_last = threading.local()  # .path: of the last checkpoint saved with other ranks


@dataclasses.dataclass(frozen=True)
class _Contents:
    tables: list[StreamedTable]
    specs: list  # SaveSpecs of everything else
    tensors: list[StoredTensor]  # one for each of `specs`


def save_objects_with_tables() -> None:
    """Makes every tf.train.Checkpoint save and restore tables as tf.train.Saver does."""
    integrations.apply("tf.train.Checkpoint, its saver", lambda saver: _SaverOfObjects)
    integrations.apply("tf.train.CheckpointManager.save", _managed_by_rank_0)
    restore_objects_from_rank_0()


class _SaverOfObjects(functional_saver.MultiDeviceSaver):
    """The saver of a tf.train.Checkpoint; ops move tables' contents between them and files."""

    def __init__(
        self,
        serialized_tensors: Mapping[Any, Any],
        registered_savers: Mapping[str, Any] | None = None,
        call_with_mapped_captures: Any = None,
    ) -> None:
        tables, others = _split(serialized_tensors)
        self._contents: _Contents | None = None
        if tables:
            _raise_for_others(tables, registered_savers)
            _raise_for_ordinary_slots(others)
            specs = list(_specs(others))
            tensors = [StoredTensor.of(spec, owner) for spec, owner in specs]
            self._contents = _Contents(tables, [spec for spec, _ in specs], tensors)
        super().__init__(others, registered_savers, call_with_mapped_captures)

    def save(self, file_prefix: tf.Tensor, options: Any = None) -> tf.Operation | None:
        """As TensorFlow's; with tables, all ranks that share them save together."""
        contents = self._contents
        if contents is None:
            return super().save(file_prefix, options)
        is_shared = any(each.table.ranks.size > 1 for each in contents.tables)
        if not tf.executing_eagerly():
            _check_disk_is_shared(contents)
            if is_shared:
                state_of(tf.compat.v1.get_default_graph()).saves_objects = True
            return save_checkpoint(file_prefix, contents.tables, contents.specs).op

        # One step of all ranks, which fails as a whole.
        @tf.function(autograph=False, input_signature=[tf.TensorSpec([], tf.string)])
        def save_all(path):
            save_checkpoint(path, contents.tables, contents.specs)

        path = tf.convert_to_tensor(file_prefix)
        with logged(f"saving {path.numpy().decode()}", _eager_bytes_of(contents)):
            save_all.get_concrete_function()(path)
        _last.path = path.numpy().decode() if is_shared else None
        return None

    def restore(self, file_prefix: tf.Tensor, options: Any = None) -> dict[str, Any]:
        """As TensorFlow's, tables first; if something does not fit, everything stays as it was."""
        contents = self._contents
        if contents is None:
            return super().restore(file_prefix, options)
        if not tf.executing_eagerly():
            _check_disk_is_shared(contents)
        # In eager mode, tables of parts look up rows, which would wait for the end of the restore.
        holds_steps = not tf.executing_eagerly() or all(
            isinstance(each, ObjectTable) for each in contents.tables
        )
        if not tf.executing_eagerly():
            return self._restore(contents, file_prefix, options, holds_steps)
        name = tf.convert_to_tensor(file_prefix).numpy().decode()
        num_bytes = bytes_to_read(tensors_in_readable(name), _eager_bytes_of(contents) > 0)
        with logged(f"restoring {name}", num_bytes):
            return self._restore(contents, file_prefix, options, holds_steps)

    def _restore(
        self, contents: _Contents, file_prefix: tf.Tensor, options: Any, holds_steps: bool
    ) -> dict[str, Any]:
        path = tf.convert_to_tensor(file_prefix)
        checked = CheckedRestore(path, contents.tables, contents.tensors, holds_steps)
        restored: list[tf.Operation] = []
        found: dict[str, Any] = {}
        try:
            for each in contents.tables:
                each.path, each.restored = checked.path, restored
                found[each.name] = each.restore_from_path()
            with tf.control_dependencies([op for op in found.values() if op is not None]):
                path = tf.identity(checked.path)
            found.update(super().restore(path, options) or {})
        finally:
            end = checked.end([*found.values()])
        return {**found, f"{contents.tables[0].name} (end)": end}


def _eager_bytes_of(contents):
    return int(bytes_in(table for each in contents.tables for table in each.tables))


def _split(serialized_tensors):
    """([StreamedTable], the other tensors)."""
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


def _raise_for_ordinary_slots(others):
    """Raises for optimizers' ordinary variables of tables: their rows follow a rank's row ids."""
    variables = [each for each in others if isinstance(each, Variable)]
    trained = [each for each in variables if each.trainable]
    for variable in variables:
        table = table_of_ordinary_slot(variable)
        if table is not None and not is_of_another(variable.name.partition(":")[0], table, trained):
            raise NotImplementedError(
                f"{variable.name}, which an optimizer has made for the table {table.table_name}, "
                "does not know its keys: make the optimizer without it, as use_ema=False leaves "
                "out averages"
            )


def _specs(serialized_tensors):
    """Yields (SaveSpec, the object that it belongs to)."""
    for owner, tensors in serialized_tensors.items():
        for name, given in tensors.items():
            by_slice = given if isinstance(given, dict) else {"": given}
            for slice_spec, tensor in by_slice.items():
                if not isinstance(tensor, BaseSaverBuilder.SaveSpec):
                    tensor = BaseSaverBuilder.SaveSpec(tensor, slice_spec, name)
                yield tensor, owner


def _check_disk_is_shared(contents):
    if are_on_rank_0() and any(each.table.ranks.size > 1 for each in contents.tables):
        raise NotImplementedError(
            f"{CHECKPOINTS_ON_RANK_0.name}=1 is for tf.train.Saver, also in sessions and "
            "estimators, and for tf.train.Checkpoint in eager mode: in a graph, "
            "tf.train.Checkpoint and Keras save and restore tables of several ranks on a disk that "
            "all of them share"
        )


def _managed_by_rank_0(save):
    """Lets rank 0 decide how many checkpoints are kept, and delete the others.

    Each rank still writes its own `checkpoint` file, with its own paths to the same checkpoints.
    Ranks return together: Keras's BackupAndRestore deletes the folder once one of them has.
    """

    @functools.wraps(save)
    def save_with_ranks(self, *args, **kwargs):
        if not is_connected():
            return save(self, *args, **kwargs)
        with members.deleting_by(self, functools.partial(_delete_on_rank_0, self)):
            path = save(self, *args, **kwargs)
        if path is not None and _is_of_ranks(path):
            _value_of_rank_0(lambda: None)
        return path

    return save_with_ranks


def _delete_on_rank_0(manager):
    if not _is_of_ranks(manager.latest_checkpoint):
        members.delete_checkpoints(manager)
        return

    def delete():
        members.delete_checkpoints(manager)
        kept, preserved = members.checkpoints_kept_by(manager)
        return [len(kept), preserved]

    num_kept, preserved = _value_of_rank_0(delete)
    members.preserve_since(manager, preserved)
    kept, _ = members.checkpoints_kept_by(manager)
    while len(kept) > num_kept:
        kept.popitem(last=False)


def _is_of_ranks(path):
    """Whether all ranks saved a checkpoint together, so that rank 0 manages its files."""
    if tf.executing_eagerly():
        return path is not None and getattr(_last, "path", None) == path
    return state_of(tf.compat.v1.get_default_graph()).saves_objects


def _value_of_rank_0(make):
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    return value_of_rank_0("tf.train.Checkpoint", make, graph)
