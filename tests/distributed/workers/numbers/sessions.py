# SPDX-License-Identifier: Apache-2.0
"""Two threads: one session each of graphs that look alike, and one session with other fetches."""

import threading
import time

import numpy as np
import tensorflow as tf

import sok_compat as sok
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config

NUM_STEPS = 15


def build(first_value):
    """(graph, init, output, sum of another layer's output)"""
    with tf.Graph().as_default() as graph:
        sok.Init(global_batch_size=SIZE, seed=3)
        initializer = tf.compat.v1.constant_initializer(first_value)
        layers = [
            sok.All2AllDenseEmbedding(
                40, 4, 1, 1, dynamic_input=True, embedding_initializer=initializer
            )
            for _ in range(2)
        ]
        keys = tf.random.uniform([7], maxval=30, dtype=tf.int64)
        outputs = [layer(keys) for layer in layers]
        gradients = tf.gradients(outputs, [layer.embedding_variable for layer in layers])
        init = tf.compat.v1.global_variables_initializer()
        graph.finalize()
    return graph, init, [outputs[0], gradients[0]], [outputs[1], gradients[1]]


def run(session, fetches, seed):
    """The values of all rows that came, in steps with pauses of this rank's own."""
    rng = np.random.default_rng([RANK, seed])
    values = set()
    for _ in range(NUM_STEPS):
        time.sleep(rng.uniform(0, 0.02))
        values.update(np.unique(session.run(fetches)[0]).tolist())
    return sorted(values)


def in_threads(calls):
    """[result of each call]; all run at the same time."""
    results = [None] * len(calls)

    def keep(i):
        results[i] = calls[i]()

    threads = [threading.Thread(target=keep, args=[i]) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


if __name__ == "__main__":
    models = [build(1.0), build(2.0)]
    sessions = []
    for graph, init, *_ in models:
        sessions.append(tf.compat.v1.Session(graph=graph, config=session_config()))
        sessions[-1].run(init)
    two_sessions = in_threads(
        [lambda s=s, m=m, i=i: run(s, m[2], i) for i, (s, m) in enumerate(zip(sessions, models))]
    )
    two_fetches = in_threads([lambda i=i: run(sessions[0], models[0][2 + i], i) for i in range(2)])
    report({"two sessions": two_sessions, "two fetches": two_fetches})
