# SPDX-License-Identifier: Apache-2.0
"""Sessions and estimators that stop and resume, without a Scaffold, as Horovod's scripts have them:
checkpoints are on rank 0 only, or in the same folder for all, and rank 0's variables are broadcast.

Arguments: a folder; the scripts.
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


# Of sessions, by optimizer: when they save.
SAVING = {
    "sgd": {"save_checkpoint_steps": 4},
    "adagrad": {"save_checkpoint_secs": 0.5},
    "plugin": {},
}


def folder_of(optimizer, folder):
    """With sgd, rank 0 alone has one, as Horovod's documentation has it; else all have the same."""
    return None if RANK and optimizer == "sgd" else str(folder)


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
            *broadcast_hooks(),
            tf1.train.StopAtStepHook(last_step=last_step),
            tf1.train.NanTensorHook(loss),
        ]
        if RANK == 0:
            hooks.append(tf1.train.LoggingTensorHook({"loss": loss}, every_n_iter=2))
        losses = []
        with tf1.train.MonitoredTrainingSession(
            checkpoint_dir=folder_of(optimizer, folder),
            save_summaries_steps=2,
            **SAVING[optimizer],
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
        folder = folder_of(optimizer, FOLDER / name)
        config = tf.estimator.RunConfig(folder, save_checkpoints_steps=4)
        return tf.estimator.Estimator(model_fn, config=config, params={"optimizer": optimizer})

    def train(made, name, max_steps):
        made.train(lambda: batches().repeat(), broadcast_hooks(), max_steps=max_steps)

    def logits(made, name):
        predictions = made.predict(batches, hooks=broadcast_hooks())
        return np.array([prediction["logits"] for prediction in predictions])

    whole = make(f"whole {optimizer}")
    train(whole, f"whole {optimizer}", NUM_BATCHES)
    train(whole, f"whole {optimizer}", NUM_STEPS)  # again, the same one
    name = f"stopped {optimizer}"
    stopped = make(name)
    train(stopped, name, NUM_BATCHES)
    seen = {"whole": logits(whole, f"whole {optimizer}"), "halfway": logits(stopped, name)}
    seen["halfway evaluated"] = stopped.evaluate(batches, hooks=broadcast_hooks())
    again = make(name)  # as another process would: other ranks find no checkpoint
    train(again, name, NUM_STEPS)
    seen["end"] = logits(again, name)
    seen["evaluated"] = again.evaluate(batches, hooks=broadcast_hooks())
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
