# SPDX-License-Identifier: Apache-2.0
"""A table and its slots in a tf.train.Saver, in the layout of DeepRec's checkpoints."""

import tensorflow as tf

from sok_compat.checkpoint.names_of_parts import around_part
from sok_compat.checkpoint.self_reading import SelfReadingSaveable
from sok_compat.checkpoint.table_saveable import export_planes
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import BaseSaverBuilder
from sok_compat.tables.table_part import NUM_BUCKETS, TablePart


class BucketSaveable(SelfReadingSaveable):
    """All that a table holds, as nine tensors of the table and of each of its slots.

    The n keys are in buckets, floormod(key, 1000), bucket after bucket, ascending in each; slots
    have the same keys in the same order. X is the name of the table or slot:
      X-keys: [n], of the table's key_dtype_of_ids.
      X-values: float32 [n, width].
      X-versions, X-freqs: int64 [n], or [0]: what is recorded of the keys.
      X-keys_filtered, X-versions_filtered, X-freqs_filtered: [m], of keys that have no row.
      X-partition_offset, X-partition_filter_offset: int32 [1001]; where each bucket starts.

    Restoring makes the table hold what the checkpoint has of it, or of the buckets of its part, in
    however many parts it was saved. Keys that a slot was not saved for hold its initial value
    there. The table may be used or not even initialized; when something does not fit, what it held
    stays.

    What the table says of its keys, all of it for this class:
      key_dtype_of_ids: tf.int64 or tf.int32.
      part: its TablePart; None: it is whole.
      before_save(): an op that runs before the table is read, or None.
      recorded(keys): (versions, freqs) of keys that it holds, int64 [n] or [0].
      filtered(): (keys, versions, freqs) of keys that have no row, int64 [m].
      restore_recorded(keys, versions, freqs, filtered): an op that takes these back, or None;
        `filtered` is as of filtered(); a version or freq of -1 was not in the checkpoint.
    """

    def __init__(self, table, name, slot_names=None):
        """As TableSaveable; slots of which a name is None need not be in what is restored."""
        self._table, self._slots = table, list(table.slots)
        given = slot_names or [None] * len(self._slots)
        slot_names = [x or slot.op.name for x, slot in zip(given, self._slots)]
        self._plane_names = [_around_part(table, name, x) for x in (name, *slot_names)]
        self._slot_is_required = [x is not None for x in given]
        keys, rows, slots = export_planes(table, self._slots, NUM_BUCKETS)
        with tf.name_scope(f"{table.table_name}/"), tf.device("/cpu:0"):
            of_keys = _tensors_of_keys(table, keys)
        specs = [
            BaseSaverBuilder.SaveSpec(tensor, "", f"{title}-{what}")
            for title, values in zip([name, *slot_names], [rows, *slots])
            for what, tensor in {**of_keys, "values": values}.items()
        ]
        super().__init__(table.handle, specs, name)

    def restore(self, restored_tensors, restored_shapes):
        """The op that fills the table."""
        del restored_tensors, restored_shapes
        with tf.control_dependencies(self.restored[-1:]):  # memory for one at a time
            restored = restore_buckets(
                self._table, self.path, self._plane_names, self._slots, self._slot_is_required
            )
        self.restored.append(restored)
        return restored


def restore_buckets(table, path, plane_names, slots=(), slot_is_required=()):
    """The op that makes a table hold what a checkpoint has of it.

    Args:
      table: the table; see BucketSaveable.
      path: of the checkpoint, a string or scalar string tensor.
      plane_names: (head, tail) of the table and of each slot; see SokRestoreBuckets.
      slots: the SlotVariables that are restored; others hold their initial value.
      slot_is_required: of each slot, whether it fails that the checkpoint has nothing of it; else
        it holds its initial value, too, and a warning is logged.
    """
    heads, tails = zip(*plane_names)
    part = table.part or TablePart(0, 1)
    are_there = [each.initialize_if_missing() for each in (table, *slots)]
    with tf.device(table.device), tf.control_dependencies(are_there):
        keys, versions, freqs, *filtered = ops.sok_restore_buckets(
            table.table_handle,
            path,
            heads=heads,
            tails=tails,
            slot_names=[slot.op.name for slot in slots],
            slot_is_required=slot_is_required,
            num_buckets=NUM_BUCKETS,
            num_parts=part.count,
            part=part.index,
            Tkey=table.key_dtype_of_ids,
        )
    recorded = table.restore_recorded(keys, versions, freqs, filtered)
    return tf.group(keys, *([] if recorded is None else [recorded]))


def _around_part(table, name, plane_name):
    return around_part(plane_name, (name, table.table_name), table.part)


def _tensors_of_keys(table, keys):
    """{what: tensor}, for the table and for its slots."""
    versions, freqs = table.recorded(keys)
    with tf.control_dependencies([keys]):  # after before_save()
        filtered, filtered_versions, filtered_freqs = _in_buckets(*table.filtered())
    return {
        "keys": _as_saved(table, keys),
        "versions": versions,
        "freqs": freqs,
        "keys_filtered": _as_saved(table, filtered),
        "versions_filtered": filtered_versions,
        "freqs_filtered": filtered_freqs,
        "partition_offset": _bucket_starts(keys),
        "partition_filter_offset": _bucket_starts(filtered),
    }


def _in_buckets(keys, *numbers):
    if keys.shape == [0]:
        return [keys, *numbers]
    by_key = tf.argsort(keys, stable=True)
    buckets = tf.math.floormod(tf.gather(keys, by_key), NUM_BUCKETS)
    order = tf.gather(by_key, tf.argsort(buckets, stable=True))
    return [tf.gather(each, order) for each in (keys, *numbers)]


def _bucket_starts(keys):
    """int32 [NUM_BUCKETS + 1], of keys in buckets."""
    buckets = tf.math.floormod(keys, NUM_BUCKETS)
    return tf.searchsorted(buckets, tf.range(NUM_BUCKETS + 1, dtype=tf.int64))


def _as_saved(table, keys):
    """As key_dtype_of_ids; fails for a key that it cannot hold."""
    if table.key_dtype_of_ids == tf.int64:
        return keys
    narrow = tf.cast(keys, table.key_dtype_of_ids)
    are_equal = tf.reduce_all(tf.equal(tf.cast(narrow, tf.int64), keys))
    message = (
        f"{table.table_name} has keys that are no {table.key_dtype_of_ids.name}, its key_dtype, "
        "and cannot be saved; use key_dtype=tf.int64"
    )
    with tf.control_dependencies([tf.debugging.Assert(are_equal, [message])]):
        return tf.identity(narrow)
