# SPDX-License-Identifier: Apache-2.0
"""MonitoredTrainingSession and estimators where ranks do not run the same steps.

Arguments: what goes wrong, in turn; all ranks report what they saw of it.
"""

import os
import sys
import time

import tensorflow as tf

from tests.distributed.workers.monitored_model import (
    NUM_BATCHES,
    SLOTS,
    batches,
    broadcast_hooks,
    logits_of,
    loss_of,
    train_op_of,
)
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config, wait_for_all_ranks

tf1 = tf.compat.v1
IS_LAST = RANK == SIZE - 1
FEW = 3  # batches


def sgd():
    return tf1.train.GradientDescentOptimizer(0.1)


class CountSessions(tf1.train.SessionRunHook):
    """How many sessions were made."""

    count = 0

    def after_create_session(self, session, coord):
        self.count += 1


class EvaluateOnRankZero(tf1.train.SessionRunHook):
    """After some steps, a lookup that no other rank runs."""

    def __init__(self, evaluation):
        self.evaluation, self.steps = evaluation, 0

    def after_run(self, run_context, run_values):
        self.steps += 1
        if self.steps == FEW and RANK == 0 and SIZE > 1:
            run_context.session.run(self.evaluation)


def seen_of(work):
    """What calling work(sessions) raises, and when."""
    sessions = CountSessions()
    began, error = time.time(), None
    try:
        work(sessions)
    except tf.errors.OpError as raised:
        error = raised
    return {
        "kind": error and type(error).__name__,
        "error": error and error.message,
        "sessions": sessions.count,
        "seconds": time.time() - began,
    }


def checked(logits, is_bad):
    """The logits after a check of the script's own, which fails in the middle of a step."""
    is_good = tf.less(tf1.train.get_or_create_global_step(), FEW if is_bad else NUM_BATCHES + 1)
    with tf.control_dependencies([tf.debugging.Assert(is_good, ["the script's own check"])]):
        return tf.identity(logits)


def batches_that_fail():
    """In the input pipeline, before any lookup of the step."""

    def fail(features, labels):
        with tf.control_dependencies([tf.debugging.Assert(False, ["the script's own check"])]):
            return features, tf.identity(labels)

    return batches(FEW).concatenate(batches(1).map(fail))


def monitored(
    data=None, num_steps=None, evaluates_alone=False, is_bad=False, evaluates=False, folder=None
):
    """Trains until the data, batches() by default, or the steps end; then all may evaluate."""

    def train(sessions):
        with tf.Graph().as_default():
            dataset = data() if data else batches()
            features, labels = tf1.data.make_one_shot_iterator(dataset).get_next()
            logits, layer = logits_of(features, True)
            keys = tf.zeros([1, SLOTS, 1], tf.int64)
            evaluation = tf.reduce_sum(layer(keys, training=False))
            step = train_op_of(loss_of(labels, checked(logits, is_bad)), sgd)
            hooks = [sessions, *broadcast_hooks()]
            if evaluates_alone:
                hooks.append(EvaluateOnRankZero(evaluation))
            config = session_config()
            with tf1.train.MonitoredTrainingSession(
                hooks=hooks, config=config, checkpoint_dir=folder
            ) as session:
                if num_steps is None:
                    while not session.should_stop():
                        session.run(step)
                for _ in range(num_steps or 0):
                    session.run(step)
            if evaluates:
                with tf1.train.MonitoredTrainingSession(config=config) as session:
                    session.run(evaluation)

    return seen_of(train)


def estimator():
    """The last rank has fewer batches; all go on to the evaluation."""

    def model_fn(features, labels, mode):
        logits, _ = logits_of(features, mode == tf.estimator.ModeKeys.TRAIN)
        loss = loss_of(labels, logits)
        if mode == tf.estimator.ModeKeys.EVAL:
            return tf.estimator.EstimatorSpec(mode, loss=loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op_of(loss, sgd))

    def train(sessions):
        # Without checkpoints, the last of which ranks that end apart cannot save.
        config = tf.estimator.RunConfig(save_checkpoints_secs=None, save_checkpoints_steps=None)
        made = tf.estimator.Estimator(model_fn, config=config)
        try:
            made.train(lambda: batches(few_on_last()), [sessions, *broadcast_hooks()])
        finally:
            made.evaluate(batches)  # ranks meet again

    return seen_of(train)


def few_on_last():
    return FEW if IS_LAST and SIZE > 1 else NUM_BATCHES


SCRIPTS = {
    "uneven": lambda: monitored(lambda: batches(few_on_last()), evaluates=True),
    "data": lambda: monitored(batches_that_fail if IS_LAST and SIZE > 1 else batches),
    "evaluation on rank 0 alone": lambda: monitored(evaluates_alone=True),
    "check": lambda: monitored(is_bad=IS_LAST and SIZE > 1),
    "estimator": estimator,
    "fewer, saved": lambda: monitored(
        num_steps=few_on_last(), folder=f"{os.environ['SOK_TEST_FOLDER']}/fewer"
    ),
    "fewer": lambda: monitored(num_steps=few_on_last()),  # the last rank's script ends
}

if __name__ == "__main__":
    seen = {}
    for name in sys.argv[1:]:
        wait_for_all_ranks(name)
        seen[name] = SCRIPTS[name]()
        report(seen)
