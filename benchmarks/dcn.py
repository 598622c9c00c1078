# SPDX-License-Identifier: Apache-2.0
"""The DCNv2 of examples/deeprec: steps with DeepRec's embeddings beside those of plain TensorFlow.

`python -m sok_compat.run -m benchmarks.dcn`; `python -m benchmarks --sections dcn` runs that, too.
"""

import argparse
import contextlib
import json
import subprocess
import sys

import tensorflow as tf

from benchmarks.contender import Contender, Parts
from benchmarks.contenders import PLAIN_NAME
from benchmarks.tables import OURS, Comparison
from benchmarks.timing import interleaved_medians
from examples import console
from examples.deeprec import settings

BATCH_SIZES = (2_048, 16_384)
NUM_BATCHES = 8
SEED = 1
BY_COLUMNS = "feature columns"
_EMBEDDINGS = {OURS: "group", BY_COLUMNS: "columns", PLAIN_NAME: "plain"}


def compare(num_threads, rounds):
    """[Comparison] of training steps, in a process of its own, whose TensorFlow is DeepRec's."""
    command = [sys.executable, "-m", "sok_compat.run", "-m", __name__]
    arguments = ["--threads", str(num_threads), "--rounds", str(rounds), "--json"]
    done = subprocess.run([*command, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return [Comparison(*one) for one in json.loads(done.stdout.splitlines()[-1])]


def make(name, batch_size, num_threads):
    """The model by one of the three embeddings."""
    from examples.deeprec import model  # written for DeepRec's TensorFlow
    from examples.dlrm.criteo import NUM_CATEGORICAL
    from examples.dlrm.reader import DENSE_WIDTH, Batch

    options = settings.Options(embedding=_EMBEDDINGS[name], batch_size=batch_size)

    def build():
        tf.set_random_seed(options.seed)
        batch = Batch(
            tf.placeholder(tf.float32, [None]),
            tf.placeholder(tf.float32, [None, DENSE_WIDTH]),
            tf.placeholder(tf.int64, [None, NUM_CATEGORICAL]),
        )
        logits = model.logits_of(batch, options)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=batch.labels, logits=logits)
        step = model.train_op_of(tf.reduce_mean(losses), options)
        return Parts([*batch], {"train": step})

    return Contender(name, build, num_threads)


def batches_of(batch_size):
    """[(labels, dense inputs, keys)] of the planted click model, as the reader gives them."""
    from examples.dlrm import generator, planted
    from examples.dlrm.criteo import COLUMNS, Layout
    from examples.dlrm.reader import parse_lines

    samples = [planted.draw(batch_size, SEED, chunk) for chunk in range(NUM_BATCHES)]
    texts = [generator.to_text(one, SEED).decode().splitlines() for one in samples]
    with tf.Graph().as_default(), tf.Session() as session:
        lines = tf.placeholder(tf.string, [None])
        parsed = parse_lines(lines, Layout("\t", COLUMNS))
        return [tuple(session.run(parsed, {lines: text})) for text in texts]


def _compared(batch_size, num_threads, rounds):
    batches = batches_of(batch_size)
    with contextlib.ExitStack() as stack:
        contenders = [
            stack.enter_context(make(name, batch_size, num_threads)) for name in _EMBEDDINGS
        ]
        for contender in contenders:
            for batch in batches:  # all keys have been seen
                contender.run("train", *batch)
        medians = interleaved_medians(contenders, "train", batches, rounds)
    return Comparison(f"DCNv2, batch {batch_size:,}", medians)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=60, help="timed steps of each contender")
    parser.add_argument("--json", action="store_true", help="for programs: in one line")
    arguments = parser.parse_args()
    console.quiet_tensorflow()
    compared = [_compared(size, arguments.threads, arguments.rounds) for size in BATCH_SIZES]
    if arguments.json:
        print(json.dumps([(one.what, one.seconds) for one in compared]))
        return
    for one in compared:
        for name, seconds in one.seconds.items():
            print(f"{one.what}: {name:<18} {1 / seconds:8.1f} steps/s")


if __name__ == "__main__":
    main()
