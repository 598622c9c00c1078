# SPDX-License-Identifier: Apache-2.0
"""`examples.movielens.train` as a program: on planted ratings, and on the real ones."""

import re

import movielens_data
import numpy as np
import pytest
from movielens_data import write_planted

from examples import console
from examples.movielens import split, train

SMALL = ["--runs", "1", "--batch-size", "128", "--dim", "4"]


@pytest.fixture(autouse=True)
def _leave_logging_alone(monkeypatch):
    monkeypatch.setattr(console, "quiet_tensorflow", lambda: None)


def run(*arguments, stop=None):
    """The program's exit status."""
    arguments = train.parse_arguments([str(argument) for argument in arguments])
    return train.program(arguments, stop or console.StopRequest())


def errors_in(output):
    """{name of the row: (baseline's RMSE, the model's)} of the printed table."""
    rows = re.findall(r"^(seed \d+|mean) +(\d\.\d{4}) +(\d\.\d{4}) +-?\+?\d", output, re.MULTILINE)
    return {name: (float(biases), float(model)) for name, biases, model in rows}


def test_planted_tastes(tmp_path, capsys):
    """Biases explain nothing of them, so that the baseline is as bad as the mean."""
    write_planted(tmp_path)
    assert run("--data", tmp_path, *SMALL, "--runs", 2, "--summaries", tmp_path / "runs") == 0
    errors = errors_in(capsys.readouterr().out)
    assert list(errors) == ["seed 1", "seed 2", "mean"]
    for biases, model in errors.values():
        assert biases > 1.4
        assert model < 0.7
    means = [(errors["seed 1"][i] + errors["seed 2"][i]) / 2 for i in range(2)]
    assert errors["mean"] == pytest.approx(means, abs=1e-4)
    events = sorted(path.parent.name for path in tmp_path.glob("runs/*/*tfevents*"))
    assert events == ["seed-1", "seed-2"]


def test_a_run_can_be_repeated(tmp_path, capsys):
    write_planted(tmp_path)
    outputs = []
    for _ in range(2):
        run("--data", tmp_path, *SMALL, "--epochs", 2, "--seed", 9)
        outputs.append(errors_in(capsys.readouterr().out))
    assert outputs[0] == outputs[1]
    assert "seed 9" in outputs[0]


def test_folds_and_validation(tmp_path, capsys, monkeypatch):
    write_planted(tmp_path)
    lines = (tmp_path / "u.data").read_text().splitlines(keepends=True)
    (tmp_path / "u1.base").write_text("".join(lines[:1500]))
    (tmp_path / "u1.test").write_text("".join(lines[1500:]))
    sizes = []
    monkeypatch.setattr(
        train,
        "run",
        lambda data, training, held_out, options, seed, title, *rest: (
            sizes.append((len(training), len(held_out))) or train.Result(title, 1.0, 1.0)
        ),
    )
    for arguments in ([], ["--fold", "u1"], ["--validate"], ["--fold", "u1", "--validate"]):
        run("--data", tmp_path, *SMALL, *arguments)
    assert sizes == [(1800, 200), (1500, 500), (1620, 180), (1350, 150)]
    output = capsys.readouterr().out
    assert output.count("test RMSE") == output.count("validation RMSE") == 2
    run("--data", tmp_path, *SMALL, "--folds", 3)
    assert sizes[4:] == [(1333, 667), (1333, 667), (1334, 666)]
    assert "fold 3" in capsys.readouterr().out


def test_folds_hold_out_each_rating_once():
    parts = [split.fold(10, 3, number, seed=1) for number in range(3)]
    assert sorted(np.concatenate([held_out for _, held_out in parts])) == list(range(10))
    assert all(len(set(rest) & set(held_out)) == 0 for rest, held_out in parts)


def test_interrupted(tmp_path, capsys):
    write_planted(tmp_path)
    stop = console.StopRequest()
    stop.is_set = True
    run("--data", tmp_path, *SMALL, stop=stop)
    output = capsys.readouterr().out
    assert "interrupted in the run of seed 1" in output
    assert "no test RMSE: no run has ended" in output


@pytest.mark.parametrize("arguments, message", [
    (["--fold", "u9"], "u9.base"),
    (["--test-fraction", 1], "a fraction of 1.0 of 2000 ratings"),
    (["--dim", 0], "dim must be at least 1, got 0"),
    (["--learning-rate", "nan"], "learning_rate must be positive, got nan"),
    (["--vector-penalty", -1], "vector_penalty must not be negative, got -1"),
    (["--folds", 1], "folds must be at least 2, without --fold, got 1"),
    (["--folds", 2001], "2001 folds need as many ratings, got 2000"),
    (["--runs", 0], "runs and seed must be at least 1, got 0"),
])  # fmt: skip
def test_wrong_input_is_said_and_gives_status_2(tmp_path, capsys, arguments, message):
    write_planted(tmp_path)
    assert run("--data", tmp_path, *arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.thorough
def test_the_published_ratings(capsys):
    folder = movielens_data.real_folder()
    if not folder.is_dir():
        pytest.skip(f"{folder} does not exist; name the folder of ml-100k in SOK_ML100K")
    assert run("--data", folder, "--runs", 1) == 0
    ((biases, model), mean) = errors_in(capsys.readouterr().out).values()
    assert mean == (biases, model)
    assert 0.92 < biases < 0.96  # what is known of biases on this data
    assert model < biases - 0.02
