# SPDX-License-Identifier: Apache-2.0
"""One rank of `python -m benchmarks.communication --dlrm`: steps of the whole model of
examples/dlrm on generated batches, with Horovod's allreduce of the dense gradients where there are
several ranks."""

import argparse
import json
import statistics
import time

import numpy as np
import tensorflow as tf

from benchmarks.real_time import real_time
from benchmarks.workload import Workload
from examples.dlrm import embedding, model, optimizers, reader, settings
from examples.dlrm import ranks as ranks_module

tf1 = tf.compat.v1

_WARM_UP_STEPS = 16


class Model:
    """The model in a graph and session of its own."""

    def __init__(self, options, num_features, ranks, num_threads):
        with tf.Graph().as_default() as graph:
            vectors = embedding.make_embedding(options)
            self.keys = tf1.placeholder(tf.int64, [None, num_features])
            self.dense = tf1.placeholder(tf.float32, [None, reader.DENSE_WIDTH])
            self.labels = tf1.placeholder(tf.float32, [None])
            logits = model.Dlrm(options)(self.dense, vectors(self.keys, training=True))
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=self.labels, logits=logits)
            loss = tf.reduce_sum(losses) / options.global_batch_size
            self._train_op = optimizers.training_op(loss, vectors, options, ranks)
            initialize = tf1.global_variables_initializer()
        config = tf1.ConfigProto(
            intra_op_parallelism_threads=num_threads, inter_op_parallelism_threads=num_threads
        )
        self._session = tf1.Session(graph=graph, config=config)
        self._session.run(vectors.session_init)
        self._session.run(initialize)

    def train(self, feeds):
        """Seconds of a step."""
        start = time.perf_counter()
        self._session.run(self._train_op, feeds)
        return time.perf_counter() - start


def _shares(trained, workload, ranks):
    """[feeds] of this rank, by batch."""
    generator = np.random.default_rng(1)
    batches = workload.batches().reshape(workload.num_batches, ranks.size, -1, 26)[:, ranks.rank]
    return [
        {
            trained.keys: keys,
            trained.dense: generator.random((len(keys), reader.DENSE_WIDTH), np.float32),
            trained.labels: generator.integers(0, 2, len(keys)).astype(np.float32),
        }
        for keys in batches
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--result", required=True, help="the JSON file that rank 0 writes")
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True, help="of TensorFlow, on each rank")
    parser.add_argument("--real-time", action="store_true", help="see benchmarks.communication")
    arguments = parser.parse_args()
    tf1.disable_eager_execution()
    ranks = ranks_module.connect()
    workload = Workload(num_batches=8)
    options = settings.ModelOptions(global_batch_size=workload.batch_size)
    trained = Model(options, workload.num_features, ranks, arguments.threads)
    shares = _shares(trained, workload, ranks)
    for step in range(_WARM_UP_STEPS):
        trained.train(shares[step % len(shares)])
    with real_time(arguments.real_time):
        seconds = [trained.train(shares[step % len(shares)]) for step in range(arguments.rounds)]
    if ranks.rank == 0:
        with open(arguments.result, "w") as stream:
            json.dump(workload.batch_size / statistics.median(seconds), stream)


if __name__ == "__main__":
    main()
