# SPDX-License-Identifier: Apache-2.0
"""What is known of row ids from the graph that gives them."""

import tensorflow as tf

_GIVE_DISTINCT_ROWS = ("SokAdmitKeys", "SokFindRows", "SokInsertAbsent", "SokRowsInUse")


def rows_are_distinct(row_ids):
    """Whether a gradient's indices are known, from the graph, to name each row once."""
    return tf.is_symbolic_tensor(row_ids) and giver_of_rows(row_ids).type in _GIVE_DISTINCT_ROWS


def giver_of_rows(row_ids):
    """The op of a graph that gives row ids, of which those of a gradient are all or some."""
    while row_ids.op.type == "Identity" or _takes_some(row_ids.op):
        row_ids = row_ids.op.inputs[0]
    return row_ids.op


def _takes_some(op):
    """Whether it is tf.gather(row ids, tf.where(...)[:, 0])."""
    if op.type != "GatherV2" or op.inputs[1].op.type != "StridedSlice":
        return False
    return op.inputs[1].op.inputs[0].op.type == "Where"
