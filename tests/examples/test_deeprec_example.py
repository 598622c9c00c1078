# SPDX-License-Identifier: Apache-2.0
"""The DCNv2 by both levels of DeepRec's API, by one process and by two; and its bad input."""

import functools
import tempfile

import numpy as np
import pytest

from examples import console
from examples.deeprec import settings, train
from tests.distributed.launch import has_horovod, launched_once, reports, run_ranks

NUM_RANKS = [1, pytest.param(2, marks=pytest.mark.skipif(
    not has_horovod(), reason="Horovod is not installed: run `make horovod`"
))]  # fmt: skip


@functools.cache
def folder():
    """For what the programs write; generated files are shared."""
    return tempfile.TemporaryDirectory()


@launched_once
def trained(num_ranks):
    """({embedding: figures of the first rank}, its output)."""
    arguments = (folder().name, *settings.EMBEDDINGS)
    ranks = run_ranks("deeprec.deeprec_example", num_ranks, *arguments, timeout=300)
    return reports(ranks)[0], [rank.output for rank in ranks]


def all_figures(figures):
    return [*np.ravel(figures["history"]), figures["test_loss"], figures["test_auc"]]


@pytest.mark.thorough
@pytest.mark.parametrize("num_ranks", NUM_RANKS)
@pytest.mark.parametrize("embedding", settings.EMBEDDINGS)
def test_learns_and_does_not_depend_on_level_or_ranks(embedding, num_ranks):
    figures = trained(num_ranks)[0][embedding]
    assert [samples for samples, _, _ in figures["history"]] == [6400, 8000]
    assert figures["test_auc"] > 0.65
    same = trained(1)[0]["plain" if embedding == "plain" else "group"]
    np.testing.assert_allclose(all_figures(figures), all_figures(same), rtol=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("num_ranks", NUM_RANKS)
def test_the_first_rank_alone_shows_progress_and_the_end(num_ranks):
    _, outputs = trained(num_ranks)
    for words in ("step/s", "(best possible 0.8", "trained on 8000 samples in 32 steps"):
        assert words in outputs[0]
    assert "AUC over the training: " in outputs[0] or "no picture: " in outputs[0]
    assert "ERROR" not in "".join(outputs)
    for output in outputs[1:]:
        assert "AUC" not in output


@pytest.mark.parametrize("arguments, message", [
    (["--data", "file"], "--data and --test-data go together"),
    (["--deep", "4", "0"], r"hidden layers must be at least 1 wide, got \(4, 0\)"),
    (["--dim", "0"], "dim must be at least 1, got 0"),
    (["--learning-rate", "nan"], "learning_rate must be positive and finite, got nan"),
    (["--max-steps", "0"], "max_steps must be at least 1, got 0"),
])  # fmt: skip
def test_bad_arguments(arguments, message):
    given = train.parse_arguments(arguments)
    with pytest.raises(ValueError, match=message):
        train.check(given, settings.options_of(given), num_ranks=1)


def test_batch_that_the_ranks_cannot_share():
    given = train.parse_arguments(["--batch-size", "64"])
    with pytest.raises(ValueError, match="64 is no multiple of 3"):
        train.check(given, settings.options_of(given), num_ranks=3)


def test_without_the_launcher_it_says_how_to_start_it(monkeypatch, capsys):
    monkeypatch.setattr(console, "quiet_tensorflow", lambda: None)
    assert train.program(train.parse_arguments([]), console.StopRequest()) == 2
    assert "run it with python -m sok_compat.run -m" in capsys.readouterr().err
