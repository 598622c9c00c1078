# SPDX-License-Identifier: Apache-2.0
"""benchmarks.modelzoo.turns: a script makes steps in turns, and ends with the measurement."""

import re
import textwrap

import pytest

from benchmarks.modelzoo import turns

SCRIPT = """
    import argparse
    import tensorflow as tf

    parser = argparse.ArgumentParser()
    parser.add_argument("--data_location")
    parser.add_argument("--steps", type=int)
    args = parser.parse_args()
    train_file = "train.csv"
    train = tf.assign_add(tf.train.get_or_create_global_step(), 1)
    hooks = [tf.train.StopAtStepHook(last_step=args.steps)]
    with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
        while not session.should_stop():
            session.run(train)
"""


def measure(folder, source):
    path = folder / "scripts" / "model" / "train.py"
    path.parent.mkdir(parents=True)
    path.write_text(textwrap.dedent(source))
    options = {"models": "model", "flags": "default", "dtypes": "float32", "turns": "2"}
    options |= {"warm-up": "0", "batch-size": "8", "work": str(folder / "work")}
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    turns.main(["--scripts", str(path.parents[1]), *words])


def test_each_variant_has_its_times(tmp_path, capsys):
    measure(tmp_path, SCRIPT)
    *_, row = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\| default float32 +\| +[\d.]+ +\| +[\d.]+ +\|", row)


def test_a_script_without_steps(tmp_path):
    with pytest.raises(RuntimeError, match="default float32 ended, or made no step: see .*output"):
        measure(tmp_path, SCRIPT.replace("train =", "raise ValueError  #"))
