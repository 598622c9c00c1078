# SPDX-License-Identifier: Apache-2.0
"""A step of n micro batches is that of one batch with all their rows."""

import re
import textwrap

import numpy as np
import pytest
import tensorflow as tf

from tests.distributed.launch import has_horovod, launched_once, reports, run_ranks
from tests.support.processes.subprocess_python import run_python

OPTIMIZERS = ("AdamAsync", "Adagrad", "Momentum")
needs_horovod = pytest.mark.skipif(not has_horovod(), reason="Horovod is not installed")

# Sets a configuration, and builds a step, in either order.
SCRIPT = """
    import sok_compat.deeprec as tf

    def config_of(number):
        config = tf.ConfigProto()
        config.graph_options.optimizer_options.micro_batch_num = number
        return config

    def step(*unused, mode="train"):
        variable = tf.get_variable("v", initializer=0.0)
        rows = tf.data.make_one_shot_iterator(tf.data.Dataset.range(1, 9)).get_next()
        loss = variable * tf.cast(rows, tf.float32)
        with tf.control_dependencies([loss]):  # else the update may come first
            train_op = tf.train.GradientDescentOptimizer(1.0).minimize(
                loss, tf.train.get_or_create_global_step())
        return variable, train_op, loss
"""


@launched_once
def _trained(num_ranks, number):
    return reports(run_ranks("deeprec.micro_batches", num_ranks, number, timeout=300))


@pytest.mark.parametrize("num_ranks", [
    1, pytest.param(2, marks=[pytest.mark.thorough, needs_horovod]),
])  # fmt: skip
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_session_trains_the_rows_of_all_micro_batches(optimizer, num_ranks):
    (whole,) = _trained(1, 1)
    (wanted, wanted_step), wanted_runs = whole[optimizer]
    for rank in _trained(num_ranks, 3):
        (found, step), runs = rank[optimizer]
        assert (step, runs) == (wanted_step, wanted_runs)
        for ours, theirs in zip(found, wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_step_is_counted_once_and_has_the_mean():
    printed = run_python(f"""{SCRIPT}
    config = config_of(4)
    variable, train_op, loss = step()
    with tf.train.MonitoredTrainingSession(config=config) as session:
        print([session.run(fetched) for fetched in (variable, [train_op, loss], variable)],
              session.run("global_step:0"))
        session.run(train_op)
        print(session.run({{"v": variable}}))
        session.run(train_op)  # the data has ended, and so does the session
        print("not reached")
    """)
    printed = re.sub(r"np\.float32\((.+?)\)", r"\1", printed)  # as NumPy 2 shows scalars
    assert printed.splitlines()[-2:] == ["[0.0, [None, 0.0], -2.5] 1", "{'v': -9.0}"]


@pytest.mark.skipif(not hasattr(tf, "estimator"), reason="no tf.estimator in this TensorFlow")
def test_an_estimator_trains_micro_batches():
    printed = run_python(f"""{SCRIPT}
    def model_fn(features, mode):
        _, train_op, loss = step()
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = tf.estimator.Estimator(
        model_fn, config=tf.estimator.RunConfig(session_config=config_of(4)))
    estimator.train(lambda: tf.data.Dataset.from_tensors(1).repeat())
    print([estimator.get_variable_value(name) for name in ("v", "global_step")])
    """)
    assert printed.splitlines()[-1] == "[-9.0, 2]"


@pytest.mark.parametrize("code, message", [
    ("step(); config_of(2)", "comes too late: set optimizer_options.micro_batch_num before"),
    ("""
    config_of(2)
    _, train_op, _ = step()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train_op)
    """, "run its steps in a tf.train.MonitoredTrainingSession"),
    ("""
    config = config_of(2)
    tf.train.get_or_create_global_step()
    tf.train.MonitoredTrainingSession(config=config)
    """, "micro_batch_num=2 needs a graph that an optimizer of tf.train trains"),
])  # fmt: skip
def test_what_cannot_train_micro_batches_says_so(code, message):
    printed = run_python(f"""{SCRIPT}
    try:
        exec({textwrap.dedent(code)!r}, globals())
    except (RuntimeError, tf.errors.InvalidArgumentError) as error:
        print(str(error).replace("\\\\n", " "))
    """)
    assert message in printed
