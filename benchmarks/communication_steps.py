# SPDX-License-Identifier: Apache-2.0
"""One rank of `python -m benchmarks.communication`: steps with the exchanges, and without.

A step looks up a rank's share of the global batch in a few layers and updates their tables; there
is no dense model. Each rank makes the same step also on tables of its own, which need no other
rank: that one finds, pools, merges and updates as many distinct keys as the rank asks for, and
sends nothing. Ranks take both steps in turn, so that all are in the same kind of step at a time.
The share of communication is what the step loses to it: copying, Horovod, and waiting for the
slowest rank are all in it.
"""

import argparse
import json
import statistics
import time

import numpy as np
import tensorflow as tf

import sok_compat as sok
from benchmarks.workload import Workload

tf1 = tf.compat.v1

_WARM_UP_STEPS = 8
_KEY_BYTES = 8
_FLOAT_BYTES = 4


class Tables:
    """Layers that share the features of a batch, in a graph and session of their own."""

    def __init__(self, num_layers, dim, workload, num_threads):
        self.slots = [
            len(part) for part in np.array_split(range(workload.num_features), num_layers)
        ]
        with tf.Graph().as_default() as graph:
            status = sok.Init(global_batch_size=workload.batch_size, seed=1)
            self._keys = tf1.placeholder(tf.int64, [None, workload.num_features])
            self._train_op = self._build(dim, workload)
            initialize = tf1.global_variables_initializer()
        config = tf1.ConfigProto(
            intra_op_parallelism_threads=num_threads, inter_op_parallelism_threads=num_threads
        )
        self._session = tf1.Session(graph=graph, config=config)
        self._session.run(status)
        self._session.run(initialize)

    def _build(self, dim, workload):
        layers = [
            sok.All2AllDenseEmbedding(workload.num_keys, dim, slot_num=slots, nnz_per_slot=1)
            for slots in self.slots
        ]
        parts = tf.split(self._keys, self.slots, axis=1)
        vectors = [layer(part[:, :, tf.newaxis]) for layer, part in zip(layers, parts)]
        loss = tf.add_n([tf.reduce_sum(tf.square(v)) for v in vectors]) / workload.batch_size
        variables = [layer.embedding_variable for layer in layers]
        optimizer = sok.tf.keras.optimizers.LazyAdamOptimizer(0.01)
        return optimizer.apply_gradients(zip(tf.gradients(loss, variables), variables))

    def train(self, keys):
        """Seconds of a step on keys [share of the batch, features]."""
        start = time.perf_counter()
        self._session.run(self._train_op, {self._keys: keys})
        return time.perf_counter() - start

    def close(self):
        self._session.close()


def least_bytes(keys, slots, dim, rank, num_ranks):
    """What a rank cannot but send to others in a step, if no two ranks tell each other their keys.

    The distinct keys of each layer that others own, the rows that others ask of this rank, and the
    gradients of the rows that it got.

    Args:
      keys: int64 [num_ranks, share, features], the shares of all ranks.
      slots: features of each layer.
    """
    total = 0
    begin = 0
    for width in slots:
        asked = [np.unique(share[:, begin : begin + width]) for share in keys]
        begin += width
        sent = np.count_nonzero(asked[rank] % num_ranks != rank)
        answered = sum(
            np.count_nonzero(asked[other] % num_ranks == rank)
            for other in range(num_ranks)
            if other != rank
        )
        total += sent * (_KEY_BYTES + dim * _FLOAT_BYTES) + answered * dim * _FLOAT_BYTES
    return total


def _measure(hvd, num_layers, local, arguments, workload):
    """The figures of this rank."""
    rank, num_ranks = hvd.rank(), hvd.size()
    spread = Tables(num_layers, arguments.dim, workload, local.num_threads)
    shares = workload.batches().reshape(workload.num_batches, num_ranks, -1, workload.num_features)
    figures = {"seconds": [], "local_seconds": []}
    sent = []
    for step in range(_WARM_UP_STEPS + arguments.rounds):
        batch = shares[step % workload.num_batches]
        local_seconds = local.tables[num_layers].train(batch[rank])
        before = sok.communication_stats()
        seconds = spread.train(batch[rank])
        after = sok.communication_stats()
        if step < _WARM_UP_STEPS:
            continue
        figures["seconds"].append(seconds)
        figures["local_seconds"].append(local_seconds)
        sent.append(
            (
                after.payload_bytes - before.payload_bytes
                + after.negotiation_bytes - before.negotiation_bytes,
                least_bytes(batch, spread.slots, arguments.dim, rank, num_ranks),
                after.exchanges - before.exchanges,
            )
        )  # fmt: skip
    spread.close()
    sent_bytes, least, exchanges = np.mean(sent, axis=0)
    medians = {name: statistics.median(values) for name, values in figures.items()}
    return [medians["seconds"], medians["local_seconds"], sent_bytes, least, exchanges]


class LocalTables:
    """The tables that need no other rank; made before Horovod is initialized."""

    def __init__(self, layers, dim, workload, num_threads):
        self.num_threads = num_threads
        self.tables = {n: Tables(n, dim, workload, num_threads) for n in layers}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--result", required=True, help="the JSON file that rank 0 writes")
    parser.add_argument("--layers", type=int, nargs="+", required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--threads", type=int, required=True, help="of TensorFlow, on each rank")
    arguments = parser.parse_args()
    tf1.disable_eager_execution()
    workload = Workload(num_batches=16)
    local = LocalTables(arguments.layers, arguments.dim, workload, arguments.threads)

    import horovod.tensorflow as hvd

    hvd.init()
    with tf.Graph().as_default(), tf1.Session() as session:
        figures = tf1.placeholder(tf.float64, [5])
        mean = hvd.allreduce(figures, op=hvd.Average)
        results = []
        for num_layers in arguments.layers:
            mine = _measure(hvd, num_layers, local, arguments, workload)
            names = ("seconds", "local_seconds", "sent_bytes", "least_bytes", "exchanges")
            result = dict(zip(names, session.run(mean, {figures: mine}).tolist()))
            result.update(
                num_ranks=hvd.size(), num_layers=num_layers, batch_size=workload.batch_size
            )
            results.append(result)
    if hvd.rank() == 0:
        with open(arguments.result, "w") as stream:
            json.dump(results, stream)


if __name__ == "__main__":
    main()
