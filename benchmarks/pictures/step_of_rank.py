# SPDX-License-Identifier: Apache-2.0
"""One rank of `python -m benchmarks.pictures.step`: the ops of each step, with their times."""

import argparse
import json

import tensorflow as tf

from benchmarks.communication_steps import Kind, Tables
from benchmarks.real_time import real_time
from benchmarks.workload import Workload

tf1 = tf.compat.v1
_DIM = 16
_WARM_UP_STEPS = 20


def ops_of(metadata):
    """[name, begin, end] of the ops of a step, in microseconds of the host's clock."""
    return [
        [node.node_name, node.all_start_micros, node.all_start_micros + node.all_end_rel_micros]
        for device in metadata.step_stats.dev_stats
        for node in device.node_stats
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--result", required=True, help="the JSON file of a rank, with {rank}")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--real-time", action="store_true")
    arguments = parser.parse_args()
    tf1.disable_eager_execution()
    import horovod.tensorflow as hvd

    hvd.init()
    workload = Workload(num_batches=16)
    tables = Tables(Kind(1, False), _DIM, workload, num_threads=1)
    shares = workload.batches().reshape(workload.num_batches, hvd.size(), -1, workload.num_features)
    options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
    traces = [tf1.RunMetadata() for _ in range(arguments.steps)]
    for step in range(_WARM_UP_STEPS):
        tables.train(shares[step % len(shares), hvd.rank()], options, tf1.RunMetadata())
    with real_time(arguments.real_time):
        for step, trace in enumerate(traces):
            tables.train(shares[step % len(shares), hvd.rank()], options, trace)
    tables.close()
    with open(arguments.result.format(rank=hvd.rank()), "w") as stream:
        json.dump([ops_of(trace) for trace in traces], stream)


if __name__ == "__main__":
    main()
