# SPDX-License-Identifier: Apache-2.0
"""The planted click model and the files written from it."""

import numpy as np
import pytest
from dlrm_data import read, read_all

from examples.dlrm import auc, generator, planted


@pytest.fixture(scope="module")
def samples():
    """Enough to estimate rates."""
    return planted.draw(100_000, seed=1, chunk=0)


def test_same_seed_same_samples():
    for first, second in zip(planted.draw(100, 7, 3), planted.draw(100, 7, 3)):
        np.testing.assert_array_equal(first, second)


def test_seeds_and_chunks_differ():
    base = planted.draw(100, 7, 3)
    assert (base.categories != planted.draw(100, 7, 4).categories).any()
    assert (base.categories != planted.draw(100, 8, 3).categories).any()


def test_categories_are_in_range_and_skewed(samples):
    assert samples.categories.min() == planted.MISSING_CATEGORY
    assert (samples.categories.max(axis=0) < planted.CARDINALITIES).all()
    assert samples.categories.max() > 1_000_000
    counts = np.bincount(samples.categories[:, 2] + 1)
    assert counts[1] > 1.5 * counts[2] > 1.5 * counts[4] > 0


def test_labels_follow_the_probabilities(samples):
    """In each tenth of the probabilities the clicks are as many as were planted."""
    order = np.argsort(samples.probabilities)
    for part in np.array_split(order, 10):
        planted_rate = samples.probabilities[part].mean()
        deviation = np.sqrt(planted_rate * (1 - planted_rate) / len(part))
        assert abs(samples.labels[part].mean() - planted_rate) < 4 * deviation


def test_best_auc_is_what_the_readme_says_and_no_score_beats_it(samples):
    best = auc.exact_auc(samples.labels, samples.probabilities)
    assert 0.79 < best < 0.81
    log_odds = np.log(samples.probabilities / (1 - samples.probabilities))
    noise = np.random.default_rng(0).standard_normal(len(log_odds))
    for size in (0.1, 0.3, 1.0):
        assert auc.exact_auc(samples.labels, log_odds + size * noise) < best


@pytest.mark.parametrize("name", ["data.tsv", "data.tsv.gz"])
def test_file_is_deterministic_and_complete(tmp_path, monkeypatch, name):
    monkeypatch.setattr(generator, "CHUNK_SAMPLES", 300)
    written = generator.write_file(tmp_path / name, 1000, seed=5, first_chunk=2)
    generator.write_file(tmp_path / f"again-{name}", 1000, seed=5, first_chunk=2)
    batch, counts = read_all([tmp_path / name])
    again, _ = read_all([tmp_path / f"again-{name}"])
    assert counts.total() == 0
    np.testing.assert_array_equal(batch.labels, written.labels)
    np.testing.assert_array_equal(batch.keys, again.keys)
    np.testing.assert_array_equal(batch.dense, again.dense)


def test_reader_finds_what_was_drawn(tmp_path):
    generator.write_file(tmp_path / "data.tsv", 2000, seed=5)
    drawn = planted.draw(2000, 5, 0)
    batch, _ = read_all([tmp_path / "data.tsv"])
    is_missing = drawn.numbers == planted.MISSING_NUMBER
    numbers = np.where(is_missing, 0, drawn.numbers)
    expected = np.sign(numbers) * np.log1p(np.abs(numbers))
    np.testing.assert_allclose(batch.dense[:, :13], expected, rtol=1e-6)
    np.testing.assert_array_equal(batch.dense[:, 13:], is_missing)
    for feature in range(26):  # equal keys where equal categories, missing included
        _, categories = np.unique(drawn.categories[:, feature], return_inverse=True)
        pairs = np.stack([categories.reshape(-1), batch.keys[:, feature]])
        num_pairs = np.unique(pairs, axis=1).shape[1]
        assert num_pairs == len(np.unique(pairs[0])) == len(np.unique(pairs[1]))


def test_generation_can_be_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(generator, "CHUNK_SAMPLES", 10)
    written = generator.write_file(tmp_path / "data.tsv", 100, 1, 0, lambda num_new: False)
    assert len(written.labels) == 10
    batches, _ = read([tmp_path / "data.tsv"])
    assert sum(len(batch.labels) for batch in batches) == 10


def test_nothing_to_generate(tmp_path):
    with pytest.raises(ValueError, match="num_samples must be at least 1, got 0"):
        generator.write_file(tmp_path / "data.tsv", 0, 1)
