# SPDX-License-Identifier: Apache-2.0
"""Training and lookup steps against plain TensorFlow and a peer: `python -m benchmarks`."""

import argparse
import platform

import numpy as np
import tensorflow as tf

from benchmarks.contenders import make_ours, make_peer, make_plain
from benchmarks.timing import interleaved_medians
from benchmarks.workload import Workload


def _contenders(dim, workload, num_threads):
    contenders = [
        make_ours("adagrad", dim, workload.num_keys, workload.num_features, num_threads),
        make_ours("lazy_adam", dim, workload.num_keys, workload.num_features, num_threads),
        make_plain(dim, workload.num_keys, num_threads),
    ]
    try:
        contenders.append(make_peer(dim, num_threads))
    except ImportError as error:
        print(f"without tensorflow-recommenders-addons: {error}")
    return contenders


def _insert_all_keys(contenders, workload):
    shape = (-1, workload.num_features)
    keys = np.arange(workload.num_keys - workload.num_keys % workload.num_features)
    for part in np.array_split(keys.reshape(shape), 16):
        for contender in contenders:
            contender.insert(part)


def _print_table(title, medians, ours):
    print(f"\n{title}")
    for name, seconds in medians.items():
        ratios = "  ".join(f"{medians[o] and seconds / medians[o]:5.2f}x {o}" for o in ours)
        print(f"  {name:32s} {seconds * 1e3:8.2f} ms   time over ours: {ratios}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dims", type=int, nargs="+", default=[16])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--num-keys", type=int, default=Workload.num_keys)
    arguments = parser.parse_args()
    tf.compat.v1.disable_eager_execution()
    workload = Workload(num_keys=arguments.num_keys)
    batches = workload.batches()
    distinct = np.mean([len(np.unique(batch)) for batch in batches])
    print(
        f"{platform.processor() or platform.machine()}, TensorFlow {tf.__version__}, "
        f"{arguments.threads} threads; batch {workload.batch_size} x {workload.num_features}, "
        f"{workload.num_keys} keys, Zipf {workload.exponent}: {distinct:.0f} distinct keys a batch"
    )
    for dim in arguments.dims:
        contenders = _contenders(dim, workload, arguments.threads)
        _insert_all_keys(contenders, workload)
        ours = [c.name for c in contenders if c.name.startswith("sok_compat")]
        for title, method in (("training step", "train"), ("lookup, all keys known", "look_up")):
            runs = {c.name: getattr(c, method) for c in contenders}
            interleaved_medians(runs, batches, 8)  # to warm up
            medians = interleaved_medians(runs, batches, arguments.rounds)
            _print_table(f"{title}, dim {dim}", medians, ours)
        for contender in contenders:
            contender.session.close()


if __name__ == "__main__":
    main()
