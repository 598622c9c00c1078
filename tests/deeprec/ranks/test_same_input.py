# SPDX-License-Identifier: Apache-2.0
"""Fingerprints of tf.data pipelines: equal for the same rows, none where that cannot be known."""

import pytest
import tensorflow.compat.v1 as tf

from sok_compat.checkpoint.sessions.same_input import _message, fingerprint


def pipeline(seed=3, shard=None, lines=False, file="f", deterministic=None, capture=1):
    dataset = tf.data.TextLineDataset(file) if lines else tf.data.Dataset.range(8)
    if shard is not None:
        dataset = dataset.shard(2, shard)
    dataset = dataset.shuffle(8, seed=seed).repeat().batch(2)

    def number(line):
        return tf.strings.to_number(line) if lines else line * capture

    return dataset.map(number, num_parallel_calls=2, deterministic=deterministic).prefetch(1)


def generated():
    return tf.data.Dataset.from_generator(lambda: iter([1]), tf.int32, [])


ITERATORS = {
    "one shot": tf.data.make_one_shot_iterator,
    "initializable": tf.data.make_initializable_iterator,
}


def fingerprint_of(make=pipeline, iterator="initializable", more=None, **options):
    with tf.Graph().as_default() as graph:
        if more is not None:
            more()
        ITERATORS[iterator](make(**options)).get_next()
        return fingerprint(graph.as_graph_def())


@pytest.mark.parametrize("iterator", ITERATORS)
@pytest.mark.parametrize("lines", [True, False])
def test_the_same_rows_have_one(iterator, lines):
    """Beside an ordinary variable whose first values differ."""
    first, second = (
        fingerprint_of(
            iterator=iterator,
            lines=lines,
            more=lambda value=value: tf.get_variable("x", initializer=value),
        )
        for value in (1.0, 2.0)
    )
    assert first == second != ""


OTHERS = [
    {"shard": 0},
    {"shard": 1},
    {"seed": 4},
    {"lines": True},
    {"lines": True, "file": "g"},
    {"capture": 2},
]


@pytest.mark.parametrize("iterator", ITERATORS)
def test_other_rows_have_another(iterator):
    found = [fingerprint_of(iterator=iterator, **options) for options in ({}, *OTHERS)]
    assert len(set(found)) == len(found) and "" not in found


@pytest.mark.parametrize("iterator", ITERATORS)
@pytest.mark.parametrize("options", [
    {"seed": None}, {"deterministic": False}, {"make": generated},
    {"more": lambda: tf.placeholder(tf.int64, [None])},
    {"make": lambda: pipeline().map(lambda x: x + tf.random.uniform([], 0, 5, tf.int64))},
], ids=["seed", "order", "Python", "fed", "random"])  # fmt: skip
def test_where_rows_may_differ_there_is_none(iterator, options):
    assert fingerprint_of(iterator=iterator, **options) == ""


def test_a_graph_without_a_pipeline_has_none(graph):
    tf.get_variable("x", [])
    assert fingerprint(graph.as_graph_def()) == ""


@pytest.mark.parametrize("texts, ranks", [
    (["a", "a"], "ranks 0, 1 read"), (["a", "b", "a", "b"], "ranks 0, 2 read"),
    (["a", "b"], None), (["", ""], None), (["h a", "", "h a"], "ranks 0, 2 read"),
])  # fmt: skip
def test_the_warning_names_the_ranks(texts, ranks):
    message = _message(texts)
    assert message.startswith(ranks) if ranks else message == ""
