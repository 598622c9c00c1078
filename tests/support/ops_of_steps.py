# SPDX-License-Identifier: Apache-2.0
"""Which ops of a graph a step ran, by what TensorFlow recorded of it."""

import tensorflow as tf

tf1 = tf.compat.v1
_HANDLES = ("VarHandleOp", "SokTableHandle", "Const", "Placeholder")


def ops_of_step(session, fetches, feeds, among):
    """Runs a step; those of the ops `among` that it ran, without handles and constants."""
    metadata = tf1.RunMetadata()
    options = tf1.RunOptions(trace_level=tf1.RunOptions.SOFTWARE_TRACE)
    session.run(fetches, feeds, options=options, run_metadata=metadata)
    ran = {
        node.node_name.split(":")[0]
        for device in metadata.step_stats.dev_stats
        for node in device.node_stats
    }
    return [op for op in among if op.name in ran and op.type not in _HANDLES]
