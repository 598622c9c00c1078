# SPDX-License-Identifier: Apache-2.0
"""Several ranks train the example as one process does: the reader's shares, the whole program."""

import argparse
import importlib.util
import itertools
import os
import re
import subprocess
import sys
import types

import dlrm_data
import numpy as np
import pytest

from examples import console
from examples.dlrm import (
    demo_ranks,
    demo_report,
    evaluation,
    generator,
    ranks,
    settings,
    train,
)

pytestmark = pytest.mark.thorough

TIMEOUT_SECONDS = 500  # a loaded machine may take long to import TensorFlow three times
BATCH_SIZE = 350  # leaves one sample for the last step: the share of rank 1 is empty
NUM_TRAINING, NUM_TEST = 7_001, 3_001

needs_horovod = pytest.mark.skipif(
    importlib.util.find_spec("horovod") is None, reason="Horovod is not installed (`make horovod`)"
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """(training file with one malformed line more, test file)."""
    folder = tmp_path_factory.mktemp("planted")
    paths = folder / "train.tsv", folder / "test.tsv.gz"
    generator.write_file(paths[0], NUM_TRAINING, seed=1)
    lines = paths[0].read_text().splitlines()
    paths[0].write_text("\n".join([*lines[:100], "no record", *lines[100:], ""]))
    generator.write_file(paths[1], NUM_TEST, seed=1, first_chunk=1)
    return paths


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_shares_make_up_the_batch(files, num_ranks):
    whole, _ = dlrm_data.read([files[0]], BATCH_SIZE)
    shares = [dlrm_data.read([files[0]], BATCH_SIZE, rank=r, num_ranks=num_ranks)
              for r in range(num_ranks)]  # fmt: skip
    assert [counts.total() for _, counts in shares] == [1] * num_ranks
    assert len(whole[-1].labels) == 1
    for batch, *parts in itertools.zip_longest(whole, *(batches for batches, _ in shares)):
        for column, *columns in zip(batch, *parts):
            for rank, part in enumerate(columns):
                np.testing.assert_array_equal(part, column[rank::num_ranks])


def run_train(files, folder, *arguments, num_ranks=None):
    """(stdout, stderr) of the program, in one process or under horovodrun."""
    command = [sys.executable]
    if num_ranks:
        command += ["-m", "horovod.runner.launch", "-np", str(num_ranks), sys.executable]
    command += ["-m", "examples.dlrm.train", "--data", files[0], "--test-data", files[1]]
    command += ["--rows", "200000", "--dim", "4", "--batch-size", str(BATCH_SIZE)]
    command += ["--dense-learning-rate", "0.01", "--summaries", folder, *arguments]
    done = subprocess.run(
        list(map(str, command)),
        cwd=dlrm_data.ROOT,
        timeout=TIMEOUT_SECONDS,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, done.stderr


def figures(output):
    """[training loss, training AUC, test loss, test AUC]."""
    number = r"(\d\.\d{4})"
    trained = re.findall(rf"in 21 steps: loss {number}, AUC {number} \(of the last 7001", output)
    tested = re.findall(rf"tested on 3001 samples: loss {number}, AUC {number}", output)
    (trained,), (tested,) = trained, tested  # by one rank each
    return [float(figure) for figure in (*trained, *tested)]


@needs_horovod
def test_two_ranks_train(files, tmp_path):
    """The demo's test compares them with one process."""
    together, errors = run_train(files, tmp_path / "together", num_ranks=2)
    assert figures(together)[3] > 0.6
    assert (together + errors).count("1 malformed line(s) left out") == 1
    assert len(list((tmp_path / "together").iterdir())) == 1  # rank 0's summaries


def test_one_process_needs_no_horovod(monkeypatch):
    for name in ("HOROVOD_SIZE", *ranks._OF_MPI):
        monkeypatch.delenv(name, raising=False)
    assert ranks.connect().size == 1


def test_batch_that_the_ranks_cannot_share(files, capsys, monkeypatch):
    monkeypatch.setattr(console, "quiet_tensorflow", lambda: None)
    monkeypatch.setattr(ranks, "connect", lambda: types.SimpleNamespace(rank=0, size=3))
    arguments = train.parse_arguments(["--data", str(files[0]), "--batch-size", "64"])
    assert train.program(arguments, console.StopRequest()) == 2
    assert "64 is no multiple of 3" in capsys.readouterr().err


def test_command_line_gives_the_options_back():
    options = settings.ModelOptions(bottom_widths=(), top_widths=(8, 4), seed=5, rows=77)
    parser = argparse.ArgumentParser()
    settings.add_model_arguments(parser)
    assert settings.model_options(parser.parse_args(settings.command_line(options))) == options


def test_table_of_the_demo():
    alone = evaluation.Evaluation(100, 0.44, 0.7822)
    table = demo_report.ranks_table(2, alone, demo_ranks.Outcome(auc=0.7823, loss=0.4401))
    assert [line.split() for line in table.splitlines()[2:]] == [
        ["1", "process", "0.7822", "0.4400"],
        ["2", "processes", "0.7823", "0.4401"],
    ]
    table = demo_report.ranks_table(2, alone, demo_ranks.Outcome(problem="no time left for it"))
    assert table.endswith("2 processes: no time left for it")
