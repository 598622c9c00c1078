# SPDX-License-Identifier: Apache-2.0
"""The last rank fails in the ways that the arguments say, in turn; all report what they saw."""

import os
import signal
import sys
import threading
import time

import numpy as np
import tensorflow as tf

import sok_compat as sok
from tests.distributed.workers.ranks import (
    RANK,
    SIZE,
    kill_rank,
    report,
    session_config,
    wait_for_all_ranks,
)

NUM_STEPS, FAILING_STEP = 12, 6
CAPACITY = 40
IS_LAST = RANK == SIZE - 1


class Model:
    """Three layers whose input can be made wrong."""

    def __init__(self):
        self.status = sok.Init(global_batch_size=4 * SIZE, seed=3)
        self.keys = tf.compat.v1.placeholder(tf.int64, [None])
        self.bags = tf.compat.v1.sparse_placeholder(tf.int64, [None, 2])
        self.is_bad = tf.compat.v1.placeholder_with_default(False, [])
        self.is_bad_early = tf.compat.v1.placeholder_with_default(False, [])
        layers = [
            sok.All2AllDenseEmbedding(CAPACITY, 4, 1, 1, dynamic_input=True),
            sok.All2AllDenseEmbedding(CAPACITY, 8, 1, 1, dynamic_input=True),
        ]
        bag_layer = sok.DistributedEmbedding("sum", CAPACITY, 6, slot_num=1, max_nnz=2)
        early = tf.debugging.Assert(~self.is_bad_early, ["the script's check of its input"])
        with tf.control_dependencies([early]):  # no lookup has sent anything
            keys, bags = tf.identity(self.keys), tf.sparse.map_values(tf.identity, self.bags)
        outputs = [layer(keys) for layer in layers] + [bag_layer(bags)]
        loss = tf.add_n([tf.reduce_sum(tf.sin(output)) for output in outputs])
        is_good = tf.logical_and(tf.math.is_finite(loss), ~self.is_bad)
        with tf.control_dependencies([tf.debugging.Assert(is_good, ["the script's own check"])]):
            loss = tf.identity(loss)
            first_gradient = tf.ones_like(loss)  # so that the backward pass waits for the check
        tables = [layer.embedding_variable for layer in (*layers, bag_layer)]
        gradients = tf.gradients(loss, tables, first_gradient)
        train = sok.optimizers.Adam(0.01).apply_gradients(zip(gradients, tables))
        self.step = [loss, train]
        self.exported = [table.export() for table in tables]

    def feeds(self, keys=range(10), is_sorted=True, is_bad=False, is_bad_early=False):
        rows = [0, 1, 2] if is_sorted else [2, 0, 1]
        bags = np.stack([rows, [0, 0, 0]], axis=1), np.array([5, 6, 7]), np.array([4, 2])
        return {
            self.keys: np.array(keys),
            self.bags: tf.compat.v1.SparseTensorValue(*bags),
            self.is_bad: is_bad,
            self.is_bad_early: is_bad_early,
        }


def run_until_failure(session, model, mode, earlier):
    """Steps until an error; the last rank stops in between, as `mode` says."""
    seen = {"step": 0, "error": None}
    for step in range(NUM_STEPS):
        if IS_LAST and step == FAILING_STEP:
            report({**earlier, mode: seen})
            fail(mode)
            if mode == "fewer":
                break
        began = time.time()
        seen["step"] = step
        try:
            is_bad = mode == "check" and IS_LAST and step == FAILING_STEP
            session.run(model.step, model.feeds(is_bad=is_bad))
        except tf.errors.OpError as error:
            seen.update(error=error.message, kind=type(error).__name__)
            break
        finally:
            seen.update(seconds=time.time() - began, finished=time.time())
    return seen


def run_until_interrupted(session, model):
    """Steps until Ctrl-C, which reaches all ranks, wherever they are."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell has ignored it
    session.run(model.step, model.feeds())
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    while True:
        session.run(model.step, model.feeds())


def fail(mode):
    """What the mode is about, on the rank that fails."""
    if mode == "raise":
        raise ValueError("the script's own mistake")
    if mode == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if mode.startswith("stop"):
        os.kill(os.getpid(), signal.SIGSTOP)


def run_with_bad_steps(session, model):
    """[error message or None] of steps, some of which are bad on the last rank only."""
    full = [SIZE * key + RANK for key in range(CAPACITY + 1)]
    bad_steps = {
        2: dict(keys=full),
        4: dict(is_sorted=False),
        6: dict(is_bad_early=True),
    }
    errors = []
    for step in range(9):
        bad = bad_steps.get(step, {}) if IS_LAST else {}
        # The last rank fetches no gradients in step 7: the others cannot take theirs.
        fetches = model.step[:1] if IS_LAST and step == 7 else model.step
        try:
            session.run(fetches, model.feeds(**bad))
            errors.append(None)
        except (tf.errors.OpError, ValueError) as error:
            errors.append(str(error))
    return {"errors": errors, "num_keys": [len(k) for k, _ in session.run(model.exported)]}


if __name__ == "__main__":
    the_model = Model()
    init = tf.compat.v1.global_variables_initializer()
    with tf.compat.v1.Session(config=session_config()) as the_session:
        wait_for_all_ranks()
        the_session.run(the_model.status)
        the_session.run(init)
        seen_of_each = {}
        for one in sys.argv[1:]:
            if one == "bad steps":
                seen_of_each[one] = run_with_bad_steps(the_session, the_model)
            elif one == "interrupt":
                run_until_interrupted(the_session, the_model)
            else:
                seen_of_each[one] = run_until_failure(the_session, the_model, one, seen_of_each)
        report(seen_of_each)
        if any(one.startswith("stop") for one in seen_of_each):
            kill_rank(SIZE - 1)
