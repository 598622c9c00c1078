# SPDX-License-Identifier: Apache-2.0
"""Trains a layer and a dense variable without Horovod, and saves and restores them."""

import os
import sys

import numpy as np
import tensorflow as tf

import sok_compat as sok
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config

tf1 = tf.compat.v1
BATCH, NUM_KEYS, DIM, STEPS = 12, 30, 4, 4


def shares():
    """[steps] of the keys of this rank."""
    keys = np.random.default_rng(5).integers(0, NUM_KEYS, [STEPS, BATCH])
    return keys[:, RANK::SIZE]


def main():
    sok.init()
    status = sok.Init(global_batch_size=BATCH, seed=3)
    keys = tf1.placeholder(tf.int64, [None])
    layer = sok.All2AllDenseEmbedding(NUM_KEYS, DIM, 1, 1, dynamic_input=True)
    table = layer.embedding_variable
    start = np.linspace(-1, 1, DIM, dtype=np.float32)[:, np.newaxis]
    dense = tf1.get_variable("dense", initializer=start * (1 + RANK))  # until it is broadcast
    loss = tf.reduce_sum(tf.square(layer(keys) @ dense - 1.0)) / BATCH
    of_dense, of_table = tf.gradients(loss, [dense, table])
    of_dense = sok.communication.allreduce(of_dense, op="sum")
    train_op = tf.group(
        tf1.train.GradientDescentOptimizer(0.1).apply_gradients([(of_dense, dense)]),
        sok.optimizers.Adam(0.1).apply_gradients([(of_table, table)]),
    )
    broadcast = dense.assign(sok.communication.broadcast(dense.read_value(), 0))
    losses, saver = sok.communication.allgather(tf.reshape(loss, [1])), tf1.train.Saver()
    exported = table.export()
    of_job = sok.communication
    seen = {"ranks": (of_job.rank(), of_job.num_ranks(), of_job.local_rank()), "losses": []}
    path = os.path.join(os.environ["SOK_TEST_FOLDER"], "model")
    with tf1.Session(config=session_config(rewrites=False)) as session:
        session.run(status)
        session.run(tf1.global_variables_initializer())
        session.run(broadcast)
        for share in shares():
            of_step, _ = session.run([losses, train_op], {keys: share})
            seen["losses"].append(of_step.sum())
        seen["dense"] = session.run(dense)
        seen["rows"] = dict(zip(*session.run(exported)))
        saver.save(session, path, write_meta_graph=False)
    with tf1.Session(config=session_config(rewrites=False)) as session:
        session.run(status)
        saver.restore(session, path)
        seen["restored"] = dict(zip(*session.run(exported)))
    seen["libraries"] = {"horovod", "mpi4py"} & sys.modules.keys()
    report(seen)


main()
