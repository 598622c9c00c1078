# SPDX-License-Identifier: Apache-2.0
"""The one file that knows Horovod: ranks, the collectives under exchanges, its helpers."""

import sys

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1


def active_horovod():
    """horovod.tensorflow, if the script imported and initialized it; else None.

    Raises:
      ImportError: Horovod was built for another TensorFlow.
    """
    horovod = sys.modules.get("horovod.tensorflow")
    if horovod is None or not hasattr(horovod, "is_initialized"):
        return None
    return horovod if horovod.is_initialized() else None


class Collectives:
    """Horovod's collectives on bytes, in a graph and session of their own.

    One thread calls them, so that ranks meet in the same order whatever their training graphs do.
    """

    def __init__(self, horovod):
        self._horovod = horovod
        self.rank = horovod.rank()
        self.size = horovod.size()
        with tf.Graph().as_default() as graph:
            self._bytes = tf1.placeholder(tf.uint8, [None])
            self._splits = tf1.placeholder(tf.int32, [self.size])
            self._exchanged = horovod.alltoall(
                self._bytes, self._splits, name="sok_compat.exchange"
            )
        # Threads of its own: a training graph that fills TensorFlow's pool must not stop the ranks
        # from talking.
        config = tf1.ConfigProto(intra_op_parallelism_threads=1, device_count={"GPU": 0})
        config.session_inter_op_thread_pool.add(num_threads=2)
        self._session = tf1.Session(graph=graph, config=config)

    def alltoall(self, data, send_bytes):
        """(bytes received uint8 [n], their sizes by source rank int32 [size])."""
        return self._session.run(
            self._exchanged, {self._bytes: data, self._splits: send_bytes.astype(np.int32)}
        )


def adapt_optimizer_wrapper(horovod, is_table):
    """Makes hvd.DistributedOptimizer leave the gradients of tables to the tables' own exchange.

    They are sums over all ranks already. Where the wrapper averages, they are divided by the number
    of ranks, as it does with what it calls local variables: with a loss that is a mean over the
    rank's batch, tables and dense variables then both see the mean over the global batch.

    Args:
      horovod: horovod.tensorflow.
      is_table: a function of a variable.
    """
    make = horovod._make_allreduce_grads_fn
    if getattr(make, "knows_tables", False):
        return

    def make_allreduce_grads(*args, **kwargs):
        reduce_dense = make(*args, **kwargs)
        op = kwargs.get("op", args[5] if len(args) > 5 else horovod.Average)
        scale = 1.0 / horovod.size() if op == horovod.Average else 1.0

        def reduce_gradients(gradients, variables=None, *rest, **named):
            variables = list(variables or [])
            tables = {i for i, variable in enumerate(variables) if is_table(variable)}
            dense = [i for i in range(len(gradients)) if i not in tables]
            reduced = reduce_dense(
                [gradients[i] for i in dense], [variables[i] for i in dense], *rest, **named
            )
            result = [
                _scaled(gradients[i], scale) if i in tables else None for i in range(len(gradients))
            ]
            for i, gradient in zip(dense, reduced):
                result[i] = gradient
            return result

        return reduce_gradients

    make_allreduce_grads.knows_tables = True
    horovod._make_allreduce_grads_fn = make_allreduce_grads


def _scaled(gradient, scale):
    if gradient is None or scale == 1.0:
        return gradient
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values * scale, gradient.indices, gradient.dense_shape)
    return gradient * scale


def is_broadcast(tensor):
    """Whether a tensor is what hvd.broadcast gives."""
    return isinstance(tensor, tf.Tensor) and tensor.op.type == "HorovodBroadcast"
