# SPDX-License-Identifier: Apache-2.0
"""`python -m examples.dlrm.demo` from start to end, its table, and Ctrl-C at any time."""

import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import types

import pytest
from dlrm_data import ROOT

from examples import console
from examples.dlrm import demo, demo_data, demo_report, evaluation

SMALL = ["--rows", "400000", "--dim", "4", "--batch-size", "256"]
START_SECONDS = 300  # a loaded machine may take long to import TensorFlow


def start_demo(out, *arguments):
    """The demo as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "examples.dlrm.demo", "--out", str(out), *SMALL, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONFAULTHANDLER": "1"},
    )


def wait_for(process, folder, pattern):
    """Until a file of that pattern is in the folder."""
    deadline = time.monotonic() + START_SECONDS
    while not list(pathlib.Path(folder).glob(pattern)):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            pytest.fail(f"no {pattern} in {folder}; output: {process.communicate()[0]}")
        time.sleep(0.05)


@pytest.mark.thorough
def test_both_models_from_start_to_end(tmp_path):
    process = start_demo(tmp_path, "--train-samples", "30000", "--test-samples", "5000")
    output, _ = process.communicate(timeout=START_SECONDS)
    assert process.returncode == 0, output
    lines = {line.split("  ")[0]: line.split() for line in output.splitlines() if "  " in line}
    aucs = [float(lines[title][-5]) for title in ("sok_compat", "plain TensorFlow")]
    best = float(lines["best possible"][2])
    assert all(0.6 < reached < best for reached in aucs)
    assert f"sok_compat minus plain TensorFlow: {aucs[0] - aucs[1]:+.3f}" in output
    events = sorted(path.parent.name for path in tmp_path.glob("*/*/*tfevents*"))
    assert events == ["plain", "sok"]
    assert not list(tmp_path.glob("data-*"))  # the generated files are gone
    check_several_processes(output, aucs[0])


def check_several_processes(output, auc_alone):
    """The run with Horovod, or how to get it."""
    if importlib.util.find_spec("horovod") is None:
        assert "`make horovod` installs it" in output
        return
    shown = re.findall(r"^(1 process|2 processes) +(\d\.\d{4}) +\d\.\d{4}$", output, re.MULTILINE)
    assert [name for name, _ in shown] == ["1 process", "2 processes"], output
    assert [float(auc) for _, auc in shown] == pytest.approx([auc_alone] * 2, abs=1e-3)


@pytest.mark.thorough
def test_interrupted_while_training(tmp_path):
    process = start_demo(
        tmp_path, "--only", "plain", "--train-samples", "400000", "--test-samples", "1000"
    )
    wait_for(process, tmp_path, "*/plain/*tfevents*")
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=START_SECONDS)
    assert process.returncode == 130, output
    assert "Traceback" not in output
    # The training AUC is measured now and then; "-": not yet, on a slow machine.
    assert re.search(r"\nplain TensorFlow +not measured +not measured +(0\.\d+|-) ", output)
    assert "best possible" in output
    assert "interrupted after" in output and "of 400,000 samples" in output
    assert not list(tmp_path.glob("data-*"))


@pytest.mark.thorough
def test_interrupted_while_generating(tmp_path):
    process = start_demo(tmp_path, "--only", "plain", "--train-samples", "50000000")
    wait_for(process, tmp_path, "data-*/train-0.tsv")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=START_SECONDS)
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert "nothing has been trained" in output
    assert not list(tmp_path.glob("data-*"))


def test_time_limit_ends_training(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(console, "quiet_tensorflow", lambda: None)
    arguments = ["--out", str(tmp_path), *SMALL, "--only", "plain", "--time-limit", "0"]
    arguments += ["--train-samples", "1000", "--test-samples", "1000"]
    assert demo.program(demo.parse_arguments(arguments), console.StopRequest()) == 0
    output = capsys.readouterr().out
    assert "the time limit of 0 s ended training after 0 of 1,000 samples" in output
    assert "not measured" in output  # the AUC of an untrained model says nothing


def test_too_few_samples(tmp_path, capsys):
    arguments = demo.parse_arguments(["--out", str(tmp_path), "--train-samples", "1"])
    assert demo.program(arguments, console.StopRequest()) == 2
    assert "error: the demo needs at least 2 samples" in capsys.readouterr().err


def test_first_ctrl_c_asks_and_the_second_raises():
    before = signal.getsignal(signal.SIGINT)  # ignored, where make runs in the background
    with console.StopRequest() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_exit_status():
    def interrupted(arguments, stop):
        signal.raise_signal(signal.SIGINT)
        return arguments

    assert console.run(lambda arguments, stop: 0, None) == 0
    assert console.run(interrupted, 0) == 130


def test_table():
    meter = types.SimpleNamespace(
        num_steps=10, num_samples=1000, auc=lambda: 0.7, median_speed=lambda: 12345.6
    )
    data = demo_data.DemoData([], None, 0.8, 0.4)
    evaluations = {
        "sok": evaluation.Evaluation(100, 0.41, 0.7912),
        "plain": evaluation.Evaluation(100, 0.42, 0.7900),
    }
    titles = {"sok": "sok_compat", "plain": "plain TensorFlow"}
    lines = demo_report.table(titles, dict.fromkeys(titles, meter), evaluations, data).split("\n")
    assert lines[3].split() == ["sok_compat", "0.7912", "0.4100", "0.7000", "12,346", "10"]
    assert lines[5].split() == ["best", "possible", "0.8000", "0.4000"]
    assert lines[-1] == "sok_compat minus plain TensorFlow: +0.0012 AUC"
    assert "0.0088 below the best possible" in lines[-3]
