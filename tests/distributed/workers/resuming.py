# SPDX-License-Identifier: Apache-2.0
"""Sessions and estimators that stop and resume, without a Scaffold, as Horovod's scripts have them:
checkpoints are on rank 0 only, and rank 0's variables are broadcast.

Arguments: a folder; the scripts. One process saves its tables in checkpoints, several in
sok.Saver's files.
"""

import logging
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

import sok_compat as sok
from tests.distributed.workers.monitored_model import (
    KEYS,
    LABELS,
    NUM_BATCHES,
    SLOTS,
    batches,
    broadcast_hooks,
    logits_of,
    loss_of,
    train_op_of,
)
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config

tf1 = tf.compat.v1
FOLDER = Path(sys.argv[1])
NUM_STEPS = 2 * NUM_BATCHES
OPTIMIZERS = {
    "sgd": lambda: tf1.train.GradientDescentOptimizer(0.5),
    "adagrad": lambda: tf1.train.AdagradOptimizer(0.5),
    "plugin": lambda: sok.optimizers.Adam(0.1),
}


class TablesInFiles(tf1.train.SessionRunHook):
    """Rows from sok.Saver's files, if there are any, and into them when the session ends."""

    def __init__(self, folder):
        self.folder = folder / "tables"

    def begin(self):
        tables, _ = sok.split_embedding_variable_from_others(tf1.trainable_variables())
        saver, folder = sok.Saver(), str(self.folder)
        is_there = self.folder.exists()
        self.restore = [saver.restore_from_file(t, folder) for t in tables] if is_there else []
        self.dump = [saver.dump_to_file(table, folder) for table in tables]

    def after_create_session(self, session, coord):
        session.run(self.restore)

    def end(self, session):
        session.run(self.dump)


def hooks_for(folder):
    return broadcast_hooks() + ([TablesInFiles(folder)] if SIZE > 1 else [])


def on_rank_0(folder):
    """As Horovod's documentation has it."""
    return str(folder) if RANK == 0 else None


def steps(optimizer, folder, last_step):
    """Trains up to last_step in a session that may resume; (losses, dense values, rows)."""
    with tf.Graph().as_default():
        keys = tf1.placeholder(tf.int64, [None, SLOTS, 1])
        labels = tf1.placeholder(tf.float32, [None])
        logits, layer = logits_of({"keys": keys}, True)
        loss = loss_of(labels, logits)
        step = train_op_of(loss, OPTIMIZERS[optimizer])
        global_step = tf1.train.get_global_step()
        _, (weights,) = sok.split_embedding_variable_from_others(tf1.trainable_variables())
        values = [weights, layer.embedding_variable.export()]
        tf1.summary.scalar("loss", loss)
        hooks = [
            *hooks_for(folder),
            tf1.train.StopAtStepHook(last_step=last_step),
            tf1.train.NanTensorHook(loss),
        ]
        if RANK == 0:
            hooks.append(tf1.train.LoggingTensorHook({"loss": loss}, every_n_iter=2))
        losses = []
        with tf1.train.MonitoredTrainingSession(
            checkpoint_dir=on_rank_0(folder),
            save_checkpoint_steps=4,
            save_summaries_steps=2,
            hooks=hooks,
            config=session_config(),
        ) as session:
            number = session.run_step_fn(lambda step_context: step_context.session.run(global_step))
            while not session.should_stop():
                batch = number % NUM_BATCHES
                feed = {keys: KEYS[batch, RANK::SIZE], labels: LABELS[batch, RANK::SIZE]}
                losses.append(session.run([loss, step], feed)[0])
                number += 1
            dense, (found, rows) = session.run_step_fn(
                lambda step_context: step_context.session.run(values)
            )
    return losses, dense, dict(zip(found.tolist(), rows))


def monitored(optimizer):
    """[whole run, what went before the stop, what came after it]"""
    folder = FOLDER / f"monitored {optimizer}"
    whole = steps(optimizer, folder / "whole", NUM_STEPS)
    return [whole] + [steps(optimizer, folder / "stopped", n) for n in (NUM_BATCHES, NUM_STEPS)]


def model_fn(features, labels, mode, params):
    logits, _ = logits_of(features, mode == tf.estimator.ModeKeys.TRAIN)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"logits": logits})
    loss = loss_of(labels, logits)
    if mode == tf.estimator.ModeKeys.EVAL:
        right = tf1.metrics.mean(tf.cast(tf.equal(logits > 0, labels > 0.5), tf.float32))
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"right": right})
    train_op = train_op_of(loss, OPTIMIZERS[params["optimizer"]])
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def estimator(optimizer):
    """Logits of an estimator that trains twice, and of two after each other; evaluations."""

    def make(name):
        config = tf.estimator.RunConfig(on_rank_0(FOLDER / name), save_checkpoints_steps=4)
        return tf.estimator.Estimator(model_fn, config=config, params={"optimizer": optimizer})

    def train(made, name, max_steps):
        made.train(lambda: batches().repeat(), hooks_for(FOLDER / name), max_steps=max_steps)

    def logits(made, name):
        predictions = made.predict(batches, hooks=hooks_for(FOLDER / name))
        return np.array([prediction["logits"] for prediction in predictions])

    whole = make(f"whole {optimizer}")
    train(whole, f"whole {optimizer}", NUM_BATCHES)
    train(whole, f"whole {optimizer}", NUM_STEPS)  # again, the same one
    name = f"stopped {optimizer}"
    stopped = make(name)
    train(stopped, name, NUM_BATCHES)
    seen = {"whole": logits(whole, f"whole {optimizer}"), "halfway": logits(stopped, name)}
    seen["halfway evaluated"] = stopped.evaluate(batches, hooks=hooks_for(FOLDER / name))
    again = make(name)  # as another process would: other ranks find no checkpoint
    train(again, name, NUM_STEPS)
    seen["end"] = logits(again, name)
    seen["evaluated"] = again.evaluate(batches, hooks=hooks_for(FOLDER / name))
    return seen


class KeptLog(logging.Handler):
    """The messages of sok_compat."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.messages = []
        logging.getLogger("sok_compat").addHandler(self)

    def emit(self, record):
        self.messages.append(record.getMessage())


SCRIPTS = {f"monitored, {optimizer}": (monitored, optimizer) for optimizer in OPTIMIZERS}
SCRIPTS.update({f"estimator, {name}": (estimator, name) for name in ("sgd", "adagrad")})

if __name__ == "__main__":
    log, seen_of_each = KeptLog(), {}
    for title in sys.argv[2:]:
        script, argument = SCRIPTS[title]
        seen_of_each[title] = script(argument)
    report({**seen_of_each, "warnings": log.messages})
