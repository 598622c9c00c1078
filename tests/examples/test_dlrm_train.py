# SPDX-License-Identifier: Apache-2.0
"""Training of both backends on planted data, and `examples.dlrm.train` as a program."""

import glob
import re

import dlrm_data
import numpy as np
import pytest
import tensorflow as tf
from dlrm_data import record, write

import sok_compat  # noqa: F401  half of these tests are about it: say so at once if it is missing
from examples import console
from examples.dlrm import auc, criteo, generator, settings, train, trainer

CONFIGURATIONS = [
    {"backend": "plain", "optimizer": "adagrad"},
    {"backend": "sok", "layer": "all2all", "optimizer": "adagrad"},
    {"backend": "sok", "layer": "distributed", "optimizer": "adagrad"},
    {"backend": "sok", "layer": "all2all", "optimizer": "lazyadam", "learning_rate": 0.002},
]
OTHER_CONFIGURATIONS = [
    {"backend": "plain", "optimizer": "adam", "learning_rate": 0.002},
    {"backend": "sok", "layer": "all2all", "optimizer": "sgd", "learning_rate": 1.0},
    {"backend": "sok", "layer": "all2all", "optimizer": "adam", "learning_rate": 0.002},
]


@pytest.fixture(autouse=True)
def _leave_logging_alone(monkeypatch):
    monkeypatch.setattr(console, "quiet_tensorflow", lambda: None)


@pytest.fixture(scope="module")
def planted_files(tmp_path_factory):
    """(training file of 30,100 samples, test file of 5,000)."""
    folder = tmp_path_factory.mktemp("planted")
    generator.write_file(folder / "train.tsv", 30_100, seed=1)
    generator.write_file(folder / "test.tsv.gz", 5_000, seed=1, first_chunk=1)
    return folder / "train.tsv", folder / "test.tsv.gz"


def make_trainer(planted_files, **options):
    """A trainer with small layers."""
    options = {"rows": 400_000, "dim": 4, "global_batch_size": 256, "dense_learning_rate": 0.003,
               **options}  # fmt: skip
    train_file, test_file = ([criteo.inspect_file(path)] for path in planted_files)
    return trainer.Trainer(settings.ModelOptions(**options), train_file, test_file)


@pytest.mark.parametrize(
    "configuration",
    CONFIGURATIONS + [pytest.param(c, marks=pytest.mark.thorough) for c in OTHER_CONFIGURATIONS],
    ids=lambda c: "-".join(map(str, c.values())),
)
def test_model_learns(planted_files, configuration):
    model = make_trainer(planted_files, **configuration)
    model.start_pass()
    sizes = []
    while (result := model.train_step()) is not None:
        sizes.append(len(result.labels))
        assert np.isfinite(result.loss)
    assert sizes == [256] * 117 + [148]  # the short last batch is trained on
    labels, probabilities = map(np.concatenate, zip(*model.test_batches()))
    model.close()
    assert len(labels) == 5_000
    assert auc.exact_auc(labels, probabilities) > 0.62


def test_backends_start_from_the_same_dense_weights(planted_files):
    weights = []
    for backend in settings.BACKENDS:
        model = make_trainer(planted_files, backend=backend)
        with model.graph.as_default():
            dense = [v for v in tf.compat.v1.trainable_variables()
                     if v.name.startswith(("bottom", "top"))]  # fmt: skip
        weights.append(model.session.run(dense))
        model.close()
    assert len(weights[0]) == 10
    for first, second in zip(*weights):
        np.testing.assert_array_equal(first, second)


def run_train(*arguments, stop=None):
    """The program's exit status."""
    return train.program(
        train.parse_arguments([str(argument) for argument in arguments]),
        stop or console.StopRequest(),
    )


SMALL = ["--rows", 50_000, "--dim", 4, "--batch-size", 64]


@pytest.mark.parametrize("backend", settings.BACKENDS)
def test_published_sample(tmp_path, capsys, backend):
    path = dlrm_data.sample_path()
    if not path.exists():
        pytest.skip(f"{path} does not exist; name its folder in SOK_TEST_DATA")
    status = run_train(
        "--data", path, "--test-data", path, "--epochs", 3, "--backend", backend,
        "--summaries", tmp_path, *SMALL,
    )  # fmt: skip
    output = capsys.readouterr().out
    assert status == 0
    assert "trained on 600 samples in 12 steps" in output
    assert "tested on 200 samples" in output
    assert float(output.rsplit("AUC ", 1)[1]) > 0.9  # it has seen them three times
    tags = {
        value.tag
        for event in tf.compat.v1.train.summary_iterator(glob.glob(f"{tmp_path}/*tfevents*")[0])
        for value in event.summary.value
    }
    assert tags == {"loss", "auc", "samples_per_second"}


def test_malformed_lines_are_reported_once(tmp_path, caplog, capsys):
    path = write(tmp_path / "data.tsv", [record("1"), record("0"), record("maybe"), record("1")])
    assert run_train("--data", path, "--backend", "plain", "--epochs", 2, *SMALL) == 0
    assert "trained on 6 samples in 2 steps" in capsys.readouterr().out
    assert [entry.getMessage() for entry in caplog.records] == [
        "training data: 1 malformed line(s) left out: unparsable label, first at "
        f"{path}:3 (label is 'maybe')"
    ]


def test_steps_can_be_limited(tmp_path, capsys):
    path = write(tmp_path / "data.tsv", [record("1"), record("0")] * 500)
    assert run_train("--data", path, "--backend", "plain", "--max-steps", 3, *SMALL) == 0
    assert "trained on 192 samples in 3 steps" in capsys.readouterr().out


def test_wrong_input_is_said_and_gives_status_2(tmp_path, capsys):
    assert run_train("--data", tmp_path / "nowhere.tsv") == 2
    assert "nowhere.tsv" in capsys.readouterr().err
    path = write(tmp_path / "data.tsv", ["no record"])
    assert run_train("--data", path, "--backend", "plain", *SMALL) == 2
    printed = capsys.readouterr()
    assert "error: no well-formed line in" in printed.err and "trained" not in printed.out


@pytest.mark.parametrize("name, value", [
    ("epochs", 0), ("max-steps", 0), ("learning-rate", 0), ("dense-learning-rate", "nan"),
    ("seed", 2**63), ("rows", 2**45),
])  # fmt: skip
def test_arguments_out_of_range(tmp_path, capsys, name, value):
    path = write(tmp_path / "data.tsv", [record("1")])
    assert run_train("--data", path, "--backend", "plain", *SMALL, f"--{name}", value) == 2
    assert re.search(f"error: {name.replace('-', '_')} .*must ", capsys.readouterr().err)


def test_table_that_is_full(tmp_path, capsys):
    path = write(tmp_path / "data.tsv", [record("1")])
    assert run_train("--data", path, *SMALL, "--rows", 5) == 2
    printed = capsys.readouterr().err
    assert re.fullmatch(r"error: table .* is full: its capacity is 5 keys.*raise --rows\n", printed)


def test_folder_of_summaries_that_cannot_be_made(tmp_path, capsys):
    path = write(tmp_path / "data.tsv", [record("1")])
    assert run_train("--data", path, *SMALL, "--summaries", f"{path}/folder") == 2
    assert "data.tsv/folder" in capsys.readouterr().err


def test_stop_before_the_first_step(tmp_path, capsys):
    path = write(tmp_path / "data.tsv", [record("1"), record("0")])
    stop = console.StopRequest()
    stop.is_set = True
    run_train("--data", path, "--test-data", path, "--backend", "plain", *SMALL, stop=stop)
    output = capsys.readouterr().out
    assert "interrupted after 0 samples in 0 steps" in output
    assert "tested" not in output
