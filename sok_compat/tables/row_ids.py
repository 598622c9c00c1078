# SPDX-License-Identifier: Apache-2.0
"""What is known of row ids from the graph that gives them."""

import tensorflow as tf


def rows_are_distinct(row_ids):
    """Whether a gradient's indices are known, from the graph, to name each row once."""
    if not tf.is_symbolic_tensor(row_ids):
        return False
    while row_ids.op.type == "Identity":
        row_ids = row_ids.op.inputs[0]
    return row_ids.op.type in ("SokFindRows", "SokInsertAbsent", "SokRowsInUse")
