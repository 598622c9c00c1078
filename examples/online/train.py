# SPDX-License-Identifier: Apache-2.0
"""Trains on a stream, and saves an increment every few seconds. `python -m examples.online` starts
it; by itself: `python -m examples.online.train FOLDER`."""

import argparse
import os
import signal
import sys
import time

from examples import console
from examples.online.stream import Stream

BATCH = 512
WHOLE_EVERY = 20  # saves


def train(folder, stream, save_seconds, stop):
    """Until `stop` is set."""
    console.quiet_tensorflow()
    import sparse_operation_kit as sok
    import tensorflow.compat.v1 as tf

    from examples.online.model import build

    tf.disable_eager_execution()
    inputs, outputs = build(training=True)
    clicks = tf.placeholder(tf.float32, [None])
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=clicks, logits=outputs["logits"])
    loss = tf.reduce_mean(losses)
    global_step = tf.train.get_or_create_global_step()
    variables, others = sok.split_embedding_variable_from_others(tf.trainable_variables())
    with sok.OptimizerScope(variables):
        step = tf.train.RMSPropOptimizer(0.02).minimize(
            loss, global_step=global_step, var_list=variables + others
        )
    saver = sok.IncrementalSaver(max_to_keep=2)
    path, num_saves = os.path.join(folder, "model"), 0
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        latest = tf.train.latest_checkpoint(folder)
        if latest is not None:
            saver.restore(session, latest)
        next_save = time.monotonic() + save_seconds
        while not stop.is_set:
            items, labels = stream.batch(BATCH)
            session.run(step, {inputs["items"]: items, clicks: labels})
            if time.monotonic() >= next_save:
                save = saver.save_increment if num_saves % WHOLE_EVERY else saver.save
                save(session, path, global_step)
                num_saves += 1
                next_save = time.monotonic() + save_seconds


def main(arguments, stop):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="of the checkpoints")
    parser.add_argument("--began", type=float, default=time.time(), help="of the stream")
    parser.add_argument("--turn-seconds", type=float, default=60.0, help="see stream.py")
    parser.add_argument("--save-seconds", type=float, default=2.0)
    options = parser.parse_args(arguments)
    # The server ends it so. A terminal's Ctrl-C reaches both, and a second one would interrupt.
    signal.signal(signal.SIGTERM, lambda *_: setattr(stop, "is_set", True))
    os.makedirs(options.folder, exist_ok=True)
    stream = Stream(options.began, options.turn_seconds, seed=1)
    train(options.folder, stream, options.save_seconds, stop)
    return console.EXIT_OK


if __name__ == "__main__":
    sys.exit(console.run(main, sys.argv[1:]))
