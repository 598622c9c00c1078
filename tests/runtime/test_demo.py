# SPDX-License-Identifier: Apache-2.0
"""`python -m sok_compat.demo`: learns, and with the same numbers as plain TensorFlow."""

import re
import subprocess
import sys

import pytest

from sok_compat import demo


def run(*arguments):
    command = [sys.executable, "-m", "sok_compat.demo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.thorough
def test_both_models_learn_the_same():
    done = run("--steps", "60")
    assert done.returncode == 0, done.stderr
    losses = re.findall(r"loss of sok_compat (\S+), TensorFlow (\S+)", done.stdout)
    assert len(losses) == 5 and all(ours == plain for ours, plain in losses)
    assert float(losses[-1][0]) < float(losses[0][0])
    aucs = re.findall(r"test AUC (\S+),", done.stdout)
    assert len(aucs) == 2 and aucs[0] == aucs[1] and float(aucs[0]) > 0.6


def test_steps_below_one(capsys):
    with pytest.raises(SystemExit):
        demo.main(["--steps", "0"])
    assert "--steps must be at least 1, got 0" in capsys.readouterr().err
