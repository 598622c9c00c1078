# SPDX-License-Identifier: Apache-2.0
"""`use_locking` of fused updates: concurrent steps update a table one by one."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

import tensorflow as tf

from sok_compat.tables.table import Table

_NUM_LOCKS = 16  # each has a thread; tables may share one


def alone(
    table: Table, update: Callable[[], tf.Operation], after: Sequence[tf.Tensor]
) -> tf.Operation:
    """Makes an update of a table, which uses the tensors `after`, under the table's lock; returns
    the op that releases it."""
    place = zlib.crc32(table.table_name.encode()) % _NUM_LOCKS  # the same in all graphs
    with tf.device("/CPU:0"), tf.control_dependencies(after):
        mutex = tf.raw_ops.MutexV2(shared_name=f"sok_compat_update_lock_{place}")
        lock = tf.raw_ops.MutexLock(mutex=mutex)
    with tf.control_dependencies([lock]):
        updated = update()
    with tf.device("/CPU:0"), tf.control_dependencies([updated]):
        return tf.raw_ops.ConsumeMutexLock(mutex_lock=lock)
