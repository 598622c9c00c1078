# SPDX-License-Identifier: Apache-2.0
"""`use_locking` of updates by fused ops: steps that run at once update a table one by one."""

import zlib

import tensorflow as tf

_NUM_LOCKS = 16  # each has a thread; tables may share one


def alone(table, update, after):
    """Makes an update of a table that waits until no other one made here runs.

    Args:
      table: the Table.
      update: makes the op.
      after: tensors that the op uses: nobody shall wait for them with the lock held.

    Returns:
      The op; what waits for it waits for the update.
    """
    place = zlib.crc32(table.table_name.encode()) % _NUM_LOCKS  # the same in all graphs
    with tf.device("/CPU:0"), tf.control_dependencies(after):
        mutex = tf.raw_ops.MutexV2(shared_name=f"sok_compat_update_lock_{place}")
        lock = tf.raw_ops.MutexLock(mutex=mutex)
    with tf.control_dependencies([lock]):
        updated = update()
    with tf.device("/CPU:0"), tf.control_dependencies([updated]):
        return tf.raw_ops.ConsumeMutexLock(mutex_lock=lock)
