# SPDX-License-Identifier: Apache-2.0
"""What is recorded of keys in a tf.train.Saver: of those with a row, and of those without."""

import pytest
import tensorflow as tf

from sok_compat.checkpoint import IncrementalSaver
from sok_compat.deeprec.lookups.stock_lookups import embedding_lookup
from sok_compat.deeprec.optimizer_rules import train_optimizers as optimizers
from sok_compat.deeprec.variables.options import (
    CBFFilter,
    CounterFilter,
    EmbeddingVariableOption,
)
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable

tf1 = tf.compat.v1
KEYS = [1, 2, 5, 7, 1003, -4, 2**40]
FIRST = [[1, 1, 2, 5], [1, 5, 2**40, 2], [5, 7, 1003], [-4, 1, 5]]
LAST = [[2, 7, 9], [7, 1003, 1], [-4, 2**40, 2**40]]


EXACT, BLOOM = CounterFilter(3), CBFFilter(3, 1000, 0.01)


class Model:
    """One embedding variable 'v' whose keys get their row when they come the third time."""

    def __init__(self, num_parts, make_saver=tf1.train.Saver, key_filter=EXACT):
        partitioner = num_parts and tf1.fixed_size_partitioner(num_parts)
        option = EmbeddingVariableOption(filter_option=key_filter)
        variable = get_embedding_variable("v", 2, partitioner=partitioner, ev_option=option)
        parts = list(variable) if num_parts else [variable]
        self.ids, step = tf1.placeholder(tf.int64, [None]), tf1.train.get_or_create_global_step()
        loss = tf.reduce_sum(tf.sin(embedding_lookup(variable, self.ids)))
        self.step = optimizers.AdagradOptimizer(0.1).minimize(loss, step, var_list=parts)
        self.saver = make_saver()
        self._known = [
            (part.export()[:2], part.waiting_keys(), part.get_frequency(KEYS),
             part.get_version(KEYS)) for part in parts
        ]  # fmt: skip

    def known(self, session):
        """({key: row}, {key that waits: (freq, version)}, {key: (freq, version)})."""
        rows, waiting, numbers = {}, {}, {}
        for (keys, found), (without_row, *of_these), freqs, versions in session.run(self._known):
            rows.update({key: tuple(row) for key, row in zip(keys, found)})
            waiting.update({key: pair for key, *pair in zip(without_row, *of_these)})
            numbers.update({k: (f, v) for k, f, v in zip(KEYS, freqs, versions) if f > 0})
        return rows, waiting, numbers


def trained(batches, num_parts=None, restored=None, path=None, key_filter=EXACT):
    """What is known in the end; saved to the path."""
    with tf.Graph().as_default(), tf1.Session() as session:
        model = Model(num_parts, key_filter=key_filter)
        session.run(tf1.global_variables_initializer())
        if restored:
            session.run(model.step, {model.ids: [1, 1, 1, 70]})
            model.saver.restore(session, restored)
        for keys in batches:
            session.run(model.step, {model.ids: keys})
        if path:
            model.saver.save(session, path)
        return model.known(session)


def saved_as_increments(batches, num_parts, path):
    """(what is known in the end, the path of the last increment)"""
    with tf.Graph().as_default(), tf1.Session() as session:
        model = Model(num_parts, IncrementalSaver)
        session.run(tf1.global_variables_initializer())
        for number, keys in enumerate(batches):
            session.run(model.step, {model.ids: keys})
            last = model.saver.save_increment(session, path, number)
        return model.known(session), last


@pytest.mark.parametrize("saved", [None, 2])
def test_counts_go_on_from_increments(tmp_path, saved):
    """Each holds the rows that have changed, and all keys that wait."""
    expected, path = saved_as_increments(FIRST, saved, str(tmp_path / "model"))
    assert expected == trained(FIRST, saved)
    part = "" if saved is None else "/part_1"
    assert tf.train.load_variable(path, f"v{part}.increment-keys").tolist() in ([1, 5], [1], [5])
    assert tf.train.load_variable(path, f"v{part}.increment-gone").size == 0
    for restored in (None, 3):
        assert trained([], restored, path) == expected
        assert trained(LAST, restored, path) == trained(FIRST + LAST)


@pytest.mark.parametrize("saved", [None, 2])
def test_counts_go_on_in_any_parts(tmp_path, saved):
    path = str(tmp_path / "model")
    expected = trained(FIRST, saved, path=path)
    rows, waiting, numbers = expected
    assert rows.keys() >= {1, 5} and waiting.keys() == set(KEYS) - rows.keys()
    assert numbers.keys() == set(KEYS) and numbers[1][0] == 4 and len(set(numbers.values())) > 3
    in_the_end = trained(FIRST + LAST)
    for restored in (None, 1, 3):
        assert trained([], restored, path) == expected
        assert trained(LAST, restored, path) == in_the_end


@pytest.mark.parametrize("saved, restored", [(None, 3), (2, None)])
def test_counts_of_a_bloom_filter_go_on_while_they_are_exact(tmp_path, saved, restored):
    path = str(tmp_path / "model")
    rows, waiting, numbers = trained(FIRST, saved, path=path, key_filter=BLOOM)
    exact = trained(FIRST)
    counts = {key: freq for key, (freq, _) in exact[1].items()}
    assert rows == exact[0] and {key: freq for key, (freq, _) in waiting.items()} == counts
    assert trained([], restored, path, key_filter=BLOOM) == (rows, waiting, numbers)
    go_on = trained(LAST, restored, path, key_filter=BLOOM)
    assert go_on == trained(FIRST + LAST, key_filter=BLOOM)
    assert go_on[0] == trained(FIRST + LAST)[0]


@pytest.mark.parametrize("key_filter", [EXACT, BLOOM], ids=["CounterFilter", "CBFFilter"])
def test_keys_that_are_kept_out_are_not_saved_on_request(tmp_path, monkeypatch, key_filter):
    monkeypatch.setenv("TF_EV_SAVE_FILTERED_FEATURES", "False")
    path = str(tmp_path / "model")
    rows, waiting, _ = trained(FIRST, path=path, key_filter=key_filter)
    for column in ("keys", "freqs", "versions"):
        assert tf.train.load_variable(path, f"v-{column}_filtered").size == 0
    restored = trained([], None, path, key_filter=key_filter)
    assert waiting and restored[:2] == (rows, {})
