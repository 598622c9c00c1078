# SPDX-License-Identifier: Apache-2.0
"""An optimizer's slot for a table: a plane that shares the table's row ids."""

import functools

import tensorflow as tf

from sok_compat.runtime.horovod_ranks import is_broadcast
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import (
    BaseResourceVariable,
    var_handle_op,
    var_is_initialized_op,
)


class SlotVariable(BaseResourceVariable):
    """`[capacity, width]` floats beside a table's rows; memory is used for rows in use only.

    Optimizers treat it as any resource variable. It is in GLOBAL_VARIABLES, not trainable.
    """

    def __init__(self, table_variable, name, width, fill):
        """Makes the slot.

        Args:
          table_variable: the EmbeddingVariable.
          name: the slot's full name, without the current name scope.
          width: floats in a row of the slot.
          fill: what a row of the slot holds when its key comes.
        """
        capacity = table_variable.shape[0]
        self.table = table_variable
        with tf.name_scope(name) as scope, tf.device(table_variable.device):
            slot_name = scope.rstrip("/")
            handle = var_handle_op(
                dtype=tf.float32,
                shape=[capacity, width],
                shared_name=slot_name,
                name=scope,
            )
            self._attach = functools.partial(
                ops.sok_table_attach_slot,
                table_variable.emb_handle,
                handle,
                slot_name=slot_name,
                capacity=capacity,
                width=width,
                initial_value=fill,
                rows_fill_in_order=table_variable.m_use_hashtable,
            )
            initializer_op = self._attach(name="Assign")
            with tf.name_scope("Read"):
                value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
            super().__init__(
                trainable=False,
                shape=[capacity, width],
                dtype=tf.float32,
                handle=handle,
                name=slot_name,
                unique_id=slot_name,
                handle_name=slot_name,
                graph_element=value,
                initializer_op=initializer_op,
                is_initialized_op=var_is_initialized_op(handle),
                in_graph_mode=True,
            )
        table_variable.slots.append(self)
        tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES, self)

    def initialize_if_missing(self):
        """An op that makes the slot unless it is there: for what is to fill it."""
        with tf.device(self.table.device):
            return self._attach(keep_existing=True)

    def _gather_saveables_for_checkpoint(self):
        """Nothing of its own: tf.train.Checkpoint saves it with its table."""
        return {}

    def assign(self, value, *args, **kwargs):
        """As any variable's; nothing for what hvd.broadcast gives: each rank's rows are its own."""
        if is_broadcast(value):
            return tf.no_op()
        return super().assign(value, *args, **kwargs)
