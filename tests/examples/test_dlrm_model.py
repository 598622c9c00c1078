# SPDX-License-Identifier: Apache-2.0
"""The parts of the DLRM that need no training, and the options."""

import argparse

import numpy as np
import pytest
import tensorflow as tf

from examples.dlrm import embedding, meter, model, optimizers, reader, settings


def run(build):
    """Builds in a new graph, initialises, and returns the value."""
    with tf.Graph().as_default():
        value = build()
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            return session.run(value)


def test_dot_products_are_those_of_all_pairs():
    vectors = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
    actual = run(lambda: model.dot_products(tf.constant(vectors)))
    expected = [[row[i] @ row[j] for i in range(4) for j in range(i)] for row in vectors]
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_missing_layers_are_allowed():
    options = settings.ModelOptions(bottom_widths=(), top_widths=(), dim=4)

    def build():
        dense = tf.ones([2, reader.DENSE_WIDTH])
        return model.Dlrm(options)(dense, tf.ones([2, 26, 4]))

    assert run(build).shape == (2,)


def test_plain_embedding_reads_the_row_of_key_mod_rows():
    options = settings.ModelOptions(backend="plain", rows=10, dim=3)

    def build():
        plain = embedding.make_embedding(options)
        keys = tf.constant([[3, 13, 4]], tf.int64)
        (table,), others = plain.split(tf.compat.v1.trainable_variables())
        assert others == []
        return plain(keys, training=True), table

    vectors, table = run(build)
    np.testing.assert_array_equal(vectors, [table[[3, 3, 4]]])


def test_dense_weights_depend_on_the_seed_alone():
    def build_after(num_random_ops):
        def build():
            for _ in range(num_random_ops):
                tf.random.uniform([1])
            tf.compat.v1.set_random_seed(3)
            model.Dlrm(settings.ModelOptions(seed=3))
            return tf.compat.v1.trainable_variables()

        return run(build)

    for first, second in zip(build_after(0), build_after(5)):
        np.testing.assert_array_equal(first, second)


def test_every_optimizer_of_the_command_line_exists():
    assert set(optimizers.EMBEDDING_OPTIMIZERS) == set(settings.OPTIMIZERS)


def test_command_line_defaults_are_the_model_defaults():
    parser = argparse.ArgumentParser()
    settings.add_model_arguments(parser)
    assert settings.model_options(parser.parse_args([])) == settings.ModelOptions()
    given = parser.parse_args(["--backend", "plain", "--top", "8", "4", "--batch-size", "7"])
    expected = settings.ModelOptions(backend="plain", top_widths=(8, 4), global_batch_size=7)
    assert settings.model_options(given) == expected


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"backend": "pytorch"}, "backend must be one of .* got 'pytorch'"),
        ({"optimizer": "ftrl"}, "optimizer must be one of .* got 'ftrl'"),
        ({"rows": 0}, "rows must be at least 1, got 0"),
        ({"top_widths": (8, 0)}, "hidden layers must be at least 1 wide"),
        ({"backend": "plain", "optimizer": "lazyadam"}, "lazyadam comes with sok_compat"),
    ],
)
def test_wrong_options(wrong, message):
    with pytest.raises(ValueError, match=message):
        settings.ModelOptions(**wrong)


def test_meter_keeps_a_window(monkeypatch):
    monkeypatch.setattr(meter, "WINDOW_SAMPLES", 4)
    figures = meter.Meter("name")
    assert np.isnan(figures.loss()) and np.isnan(figures.auc())
    assert figures.median_speed() == 0
    for number in range(5):
        labels = np.array([0, 1])
        scores = np.array([0.1, 0.9]) if number >= 3 else np.array([0.9, 0.1])
        figures.add(meter.StepResult(float(number), labels, scores, 0.5))
    assert figures.num_steps == 5 and figures.num_samples == 10
    assert figures.loss() == pytest.approx(3.5)
    assert figures.auc() == 1.0
    assert figures.median_speed() == figures.samples_per_second() == pytest.approx(4.0)
