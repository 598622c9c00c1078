# SPDX-License-Identifier: Apache-2.0
"""One rank of `python -m benchmarks.communication`: steps with the exchanges, and without.

A step looks up a rank's share of the global batch in a few layers and updates their tables; there
is no dense model. Each feature of a layer has an output of its own, or all are one bag. Each rank
makes the same step also on tables of its own, which need no other rank: that one finds, pools,
merges and updates as many distinct keys as the rank asks for, and sends nothing. Ranks take both
steps in turn, so that all are in the same kind of step at a time. The share of communication is
what the step loses to it: copying, Horovod, and waiting for the slowest rank are all in it.
"""

import argparse
import dataclasses
import json
import time

import numpy as np
import tensorflow as tf

import sok_compat as sok
from benchmarks.least_bytes import least_bytes
from benchmarks.real_time import real_time
from benchmarks.workload import Workload
from sok_compat.ranks.collectives import graphs_of_one_rank
from sok_compat.ranks.current_job import start_job
from sok_compat.ranks.wire_dtype import wire_dtype

tf1 = tf.compat.v1

_WARM_UP_STEPS = 8
_FIGURES = (
    "seconds", "cpu_seconds", "local_seconds", "local_cpu_seconds", "sent_bytes", "least_bytes",
    "exchanges",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Kind:
    """How the features of a batch are looked up."""

    num_layers: int
    is_pooled: bool  # a layer's features are the keys of one bag, or have an output each

    def __str__(self):
        return f"{self.num_layers} layers{' pooled' * self.is_pooled}"


class Tables:
    """Layers that share the features of a batch, in a graph and session of their own."""

    def __init__(self, kind, dim, workload, num_threads):
        self.slots = [
            len(part) for part in np.array_split(range(workload.num_features), kind.num_layers)
        ]
        self._is_pooled = kind.is_pooled
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
        make_layer = self._pooled_layer if self._is_pooled else self._dense_layer
        layers = [make_layer(workload.num_keys, dim, slots) for slots in self.slots]
        parts = tf.split(self._keys, self.slots, axis=1)
        vectors = [layer(self._inputs(part)) for layer, part in zip(layers, parts)]
        loss = tf.add_n([tf.reduce_sum(tf.square(v)) for v in vectors]) / workload.batch_size
        variables = [layer.embedding_variable for layer in layers]
        optimizer = sok.tf.keras.optimizers.LazyAdamOptimizer(0.01)
        return optimizer.apply_gradients(zip(tf.gradients(loss, variables), variables))

    def _pooled_layer(self, capacity, dim, num_keys):
        return sok.DistributedEmbedding("mean", capacity, dim, slot_num=1, max_nnz=num_keys)

    def _dense_layer(self, capacity, dim, num_keys):
        return sok.All2AllDenseEmbedding(capacity, dim, slot_num=num_keys, nnz_per_slot=1)

    def _inputs(self, keys):
        """A layer's inputs from keys [batch, features of the layer]."""
        if not self._is_pooled:
            return keys[:, :, tf.newaxis]
        places = tf.where(tf.ones_like(keys, tf.bool))
        return tf.SparseTensor(places, tf.reshape(keys, [-1]), tf.shape(keys, out_type=tf.int64))

    def train(self, keys, options=None, metadata=None):
        """(Seconds, processor seconds of this process) of a step on keys [share of the batch,
        features]; `options` and `metadata` as of session.run."""
        start, cpu_start = time.perf_counter(), time.process_time()
        self._session.run(self._train_op, {self._keys: keys}, options, metadata)
        return time.perf_counter() - start, time.process_time() - cpu_start

    def close(self):
        self._session.close()


@dataclasses.dataclass
class Steps:
    """What was seen of the timed steps of a rank, a list by step each."""

    keys: list = dataclasses.field(default_factory=list)  # [share of the batch, features]
    spread: list = dataclasses.field(default_factory=list)  # as Tables.train says
    local: list = dataclasses.field(default_factory=list)
    sent: list = dataclasses.field(default_factory=list)  # (bytes, exchanges)


def _run_steps(tables, local, shares, arguments):
    """Steps with and without exchanges, in turn."""
    steps = Steps()
    for step in range(_WARM_UP_STEPS):
        local.train(shares[step % len(shares)])
        tables.train(shares[step % len(shares)])
    with real_time(arguments.real_time):
        for step in range(_WARM_UP_STEPS, _WARM_UP_STEPS + arguments.rounds):
            keys = shares[step % len(shares)]
            steps.keys.append(keys)
            steps.local.append(local.train(keys))
            before = sok.communication_stats()
            steps.spread.append(tables.train(keys))
            after = sok.communication_stats()
            sent_bytes = (
                after.payload_bytes - before.payload_bytes
                + after.negotiation_bytes - before.negotiation_bytes
            )  # fmt: skip
            steps.sent.append((sent_bytes, after.exchanges - before.exchanges))
    return steps


def _measure(job, kind, local, arguments, workload):
    """The figures of this rank, in the order of _FIGURES."""
    rank, num_ranks = job.rank(), job.size()
    spread = Tables(kind, arguments.dim, workload, local.num_threads)
    shares = workload.batches().reshape(workload.num_batches, num_ranks, -1, workload.num_features)
    steps = _run_steps(spread, local.tables[kind], shares[:, rank], arguments)
    spread.close()
    ends = np.cumsum(spread.slots)[:-1]
    float_bytes = tf.as_dtype(wire_dtype()).size
    least = [
        sum(
            least_bytes(bags, arguments.dim, rank, num_ranks, kind.is_pooled, float_bytes)
            for bags in np.split(keys, ends, axis=1)
        )
        for keys in steps.keys
    ]
    sent_bytes, exchanges = np.mean(steps.sent, axis=0)
    return [
        *np.median(steps.spread, axis=0), *np.median(steps.local, axis=0),
        sent_bytes, np.mean(least), exchanges,
    ]  # fmt: skip


class LocalTables:
    """The tables that need no other rank."""

    def __init__(self, kinds, dim, workload, num_threads):
        self.num_threads = num_threads
        with graphs_of_one_rank():
            self.tables = {kind: Tables(kind, dim, workload, num_threads) for kind in kinds}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--result", required=True, help="the JSON file that rank 0 writes")
    parser.add_argument("--layers", type=int, nargs="+", required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--threads", type=int, required=True, help="of TensorFlow, on each rank")
    parser.add_argument("--real-time", action="store_true", help="see benchmarks.communication")
    arguments = parser.parse_args()
    tf1.disable_eager_execution()
    workload = Workload(num_batches=16)
    kinds = [
        Kind(layers, is_pooled)
        for is_pooled in (False, True)
        for layers in arguments.layers
        if layers < workload.num_features or not is_pooled
    ]
    local = LocalTables(kinds, arguments.dim, workload, arguments.threads)

    job = start_job("this benchmark")
    results = []
    for kind in kinds:
        mine = _measure(job, kind, local, arguments, workload)
        result = dict(zip(_FIGURES, _mean_over_ranks(job, mine)))
        result.update(dataclasses.asdict(kind), num_ranks=job.size())
        result.update(batch_size=workload.batch_size)
        results.append(result)
    if job.rank() == 0:
        with open(arguments.result, "w") as stream:
            json.dump(results, stream)


def _mean_over_ranks(job, figures):
    with tf.Graph().as_default(), tf1.Session() as session:
        mean = job.allreduce(tf.constant(figures, tf.float64), op=job.Average)
        return session.run(mean).tolist()


if __name__ == "__main__":
    main()
