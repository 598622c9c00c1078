# SPDX-License-Identifier: Apache-2.0
"""`CheckedRestore`: holds training steps, and reads and checks a checkpoint on all ranks, before a
restore changes anything."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, Callable

import tensorflow as tf

from sok_compat.checkpoint.streams.self_reading import SelfReadingSaveable
from sok_compat.checkpoint.streams.streamed_save import (
    StreamedTable,
    checkpoint_barrier,
    collectives_of,
)
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import BaseSaverBuilder


@dataclasses.dataclass(frozen=True)
class StoredTensor:
    """A tensor that a saver restores from a checkpoint.

    Attributes:
      name: in the checkpoint.
      slice_spec: the slice to restore, as for RestoreV2; '' for the whole tensor.
      dtype: a tf.DType.
      shape: of the whole tensor, as far as it is known; None if it is unknown.
    """

    name: str
    slice_spec: str
    dtype: Any
    shape: Any = None

    @classmethod
    def of(cls, spec: BaseSaverBuilder.SaveSpec, owner: Any) -> StoredTensor:
        """The tensor of a SaveSpec. The shape is taken from `owner`, the object that it belongs to,
        if that is a variable or tensor."""
        is_whole = not spec.slice_spec and isinstance(owner, (tf.Variable, tf.Tensor))
        return cls(spec.name, spec.slice_spec or "", spec.dtype, owner.shape if is_whole else None)


class CheckedRestore:
    """A restore that fails on all ranks before it has changed anything.

    It reads all data of ordinary variables, and of tables if one of them holds keys, which a failed
    restore would lose. If all tables are empty, as at the start of a job, it checks only their
    index: restore them before the variables, so that an error on the way changes no variable.

    path: of the checkpoint, a scalar string tensor that depends on all checks.
    """

    def __init__(
        self,
        path: tf.Tensor,
        saveables: Sequence[SelfReadingSaveable],
        tensors: Sequence[StoredTensor] | None,
        holds_steps: bool = True,
        reads_data: bool = True,
    ) -> None:
        """Creates the ops; in eager mode it runs them, and raises their errors.

        Args:
          saveables: the objects to restore, at least one of them a StreamedTable.
          tensors: the other tensors to restore; None if the path is that of no checkpoint.
          holds_steps: whether training steps wait until the restore ends.
          reads_data: whether data of tables are read at all, as needed to replace several or none.
        """
        tables = [each for each in saveables if isinstance(each, StreamedTable)]
        ranks = max((each.table.ranks for each in tables), key=lambda ranks: ranks.size)
        # Begins all collectives first, so that other ranks do not wait for a rank that fails.
        lines = {each: each.description() for each in tables}
        to_hold = collectives_of(ranks, "restore", "\n".join(lines.values()))
        handles = _handles_by_device(tables)
        to_ask = {device: collectives_of(ranks, "keys") for device in handles}
        to_check = {
            each: collectives_of(each.table.ranks, f"check_{each.name}", line)
            for each, line in lines.items()
        }
        to_check_tensors = collectives_of(ranks, "check")
        self._steps = checkpoint_barrier(to_hold) if holds_steps else None
        try:
            made = [op for each in tables for op in self._after(self._steps, each.make_missing)]
            hold_keys = [
                self._after(
                    made,
                    functools.partial(_have_keys, device, of_device, to_ask[device]),
                )
                for device, of_device in handles.items()
            ]
            reads = tf.reduce_any(hold_keys) if hold_keys else tf.constant(True)
            last = reads = tf.logical_and(reads, reads_data)
            for each in saveables:
                check = functools.partial(each.check, path, reads, to_check.get(each, []))
                last = self._after(last, check)
            always = tf.constant(True)
            if tensors is not None:
                last = self._after(
                    last, lambda: check_tensors(path, always, to_check_tensors, tensors)
                )
            self.path = self._after(last, lambda: tf.identity(path))
        except BaseException:
            self.end([])
            raise

    @staticmethod
    def _after(before: Any, make: Callable[[], Any]) -> Any:
        """Returns make(), whose ops wait for those in `before`."""
        before = [] if tf.executing_eagerly() else tf.nest.flatten(before)
        before = [each for each in before if each is not None]
        with tf.control_dependencies(before), tf.device("/cpu:0"):
            return make()

    def end(self, restored: Any) -> tf.Operation | None:
        """Returns the op that resumes steps after the ops in `restored`; eager mode resumes now."""
        if self._steps is None:
            return self._after(restored, tf.no_op)
        return self._after(restored, lambda: ops.sok_release_checkpoint_barrier(self._steps))


def _handles_by_device(saveables):
    """{device: [handles of its tables]}."""
    handles = collections.defaultdict(list)
    for each in saveables:
        for table in each.tables:
            handles[table.device].append(table.table_handle)
    return handles


def _have_keys(device, handles, collectives):
    with tf.device(device):
        return ops.sok_tables_have_keys(handles, collectives)


def check_tensors(
    path: tf.Tensor,
    reads: tf.Tensor,
    collectives: list[tf.Tensor],
    tensors: Sequence[StoredTensor],
    are_rows: bool = False,
) -> tf.Operation | None:
    """Returns the op that fails on all ranks if RestoreV2 would fail on one; if they `are_rows`,
    SokReadSavedRows, which reads rows of any dtype."""
    return ops.sok_check_tensors(
        path,
        reads,
        collectives,
        names=[each.name for each in tensors],
        slices=[each.slice_spec for each in tensors],
        dtypes=[each.dtype.base_dtype for each in tensors],
        shapes=[each.shape for each in tensors],
        are_rows=are_rows,
    )
