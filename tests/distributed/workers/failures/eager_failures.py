# SPDX-License-Identifier: Apache-2.0
"""Eager code that goes wrong on the last rank, in one way after the other; then the rank leaves."""

import os
import time

import tensorflow as tf

import sok_compat as sok
from tests.distributed.workers.ranks import RANK, SIZE, report, wait_for_all_ranks

CAPACITY = 40
FOLDER = f"{os.environ['SOK_TEST_FOLDER']}/dump"
LATE_SECONDS = 6
IS_LAST = RANK == SIZE - 1
KEYS = tf.range(10, dtype=tf.int64)
FULL = tf.constant([SIZE * key + RANK for key in range(CAPACITY + 1)], tf.int64)


class ScriptError(Exception):
    """What the script itself raises."""


class Script:
    """Two tables, and steps of them that go right or wrong."""

    def __init__(self):
        sok.Init(global_batch_size=4 * SIZE, seed=3)
        self.users, self.items = (
            sok.All2AllDenseEmbedding(CAPACITY, dim, 1, 1, dynamic_input=True, name=name)
            for dim, name in ((4, "users"), (8, "items"))
        )
        self.users(KEYS)
        sok.Saver().dump_to_file(self.users.embedding_variable, FOLDER)
        self.function = tf.function(self.step)
        self.other_function = tf.function(lambda keys: self.users(keys))

    def step(self, keys=KEYS, between=lambda: None, takes_gradients=True, is_turned=False):
        """Two lookups and the backward pass; `between` runs between the lookups."""
        first, second = (self.items, self.users) if is_turned else (self.users, self.items)
        with tf.GradientTape() as tape:
            output = tf.reduce_sum(first(keys))
            between()
            output += tf.reduce_sum(second(keys))
        if takes_gradients:
            tape.gradient(output, [layer.embedding_variable for layer in (first, second)])

    def restore(self, folder=FOLDER):
        sok.Saver().restore_from_file(self.users.embedding_variable, folder)

    def raise_between(self):
        def fail():
            raise ScriptError("the script's own mistake")

        self.step(between=fail)

    def come_late(self):
        time.sleep(LATE_SECONDS)
        self.step()


def error_of(call):
    """(type's name, message, seconds) of what `call` raised; None: nothing."""
    began = time.time()
    try:
        call()
    except (tf.errors.OpError, ScriptError) as error:
        return type(error).__name__, str(error), time.time() - began
    return None


def all_errors(script):
    """{what goes wrong: errors of its calls, then of those that follow}."""
    step, function = [script.step], [lambda: script.function(KEYS)]
    cases = {  # (of the last rank, of the others, what follows)
        "raises between lookups": ([script.raise_between, script.step], step, step),
        "full table": ([lambda: script.step(FULL)], step, step),
        "full table in a function": ([lambda: script.function(FULL)], function, function),
        "no gradient": ([lambda: script.step(takes_gradients=False)], step, step),
        "other order": ([lambda: script.step(is_turned=True)], step, step),
        "other function": ([lambda: script.other_function(KEYS)], function, function),
        "late": ([script.come_late], step, step),
        "missing dump": ([lambda: script.restore("missing")], [script.restore], [script.restore]),
    }
    return {
        name: (list(map(error_of, last if IS_LAST else others)), list(map(error_of, 2 * after)))
        for name, (last, others, after) in cases.items()
    }


if __name__ == "__main__":
    wait_for_all_ranks()
    the_script = Script()
    errors = all_errors(the_script)
    report(errors)
    if not IS_LAST:
        report({**errors, "left": ([error_of(the_script.step)], [])})
