# SPDX-License-Identifier: Apache-2.0
"""tf.train.Checkpoint in eager mode: what fits, and what is said where something does not."""

import contextlib

import pytest
import tensorflow as tf

from sok_compat.checkpoint import assign_from, save_tables_in_checkpoints
from sok_compat.checkpoint.streams import stored_tensors
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.runtime.tf_versions import has_keras_2
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from sok_compat.tables import Table

TABLE = "layer/var/.ATTRIBUTES/table"


class Trained:
    """A layer, its optimizer, and the checkpoint of both."""

    def __init__(self, sok, optimizer=None, dim=3, capacity=16, **options):
        self.scope = sok.OptimizerScope
        self.layer = sok.All2AllDenseEmbedding(capacity, dim, 1, 1, dynamic_input=True, **options)
        self.table = self.layer.embedding_variable
        self.optimizer = optimizer or keras.optimizers.Adam(0.1)
        self.checkpoint = tf.train.Checkpoint(layer=self.layer, optimizer=self.optimizer)

    def train(self, *batches):
        for keys in batches:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.sin(self.layer(tf.constant(keys, tf.int64))))
            gradient = tape.gradient(loss, self.table)
            with self.scope([self.table]):
                self.optimizer.apply_gradients([(gradient, self.table)])

    def rows(self):
        keys, rows = self.table.export()
        return dict(zip(keys.numpy().tolist(), rows.numpy().tolist()))


@pytest.fixture
def saved(sok, tmp_path):
    """(what was saved, its path)"""
    trained = Trained(sok)
    trained.train([3, 1], [4, 3])
    return trained, trained.checkpoint.save(str(tmp_path / "model"))


def test_a_restore_lists_the_checkpoint_once(sok, saved, monkeypatch):
    listed, answer = [], stored_tensors._answer
    monkeypatch.setattr(
        stored_tensors, "_answer", lambda ask, path: (listed.append(path), answer(ask, path))[1]
    )
    trained, path = saved
    for keys in ([3, 1], [7]):  # then the same path with another checkpoint, within a second
        listed.clear()
        trained.train(keys)
        trained.checkpoint.write(path)
        other = Trained(sok)
        other.train([3])
        other.checkpoint.restore(path)
        assert other.rows() == trained.rows()
        assert listed == [path]


def test_slots_of_a_second_optimizer(sok, saved):
    """It has slots of the same names."""
    first, _ = saved
    second = Trained(sok)
    second.layer, second.table = first.layer, first.table
    both = tf.train.Checkpoint(layer=first.layer, optimizers=[first.optimizer, second.optimizer])
    second.train([3], [3])
    path = both.save(saved[1] + " of both")
    names = {name for name, _ in tf.train.list_variables(path)}
    if has_keras_2:  # Keras 3 has the optimizer's name in a slot's
        assert {f"{TABLE}/slots/{slot}" for slot in ("m", "v", "m_1", "v_1")} <= names
    first.train([3]), second.train([3])
    expected = first.rows()
    both.restore(path).assert_consumed()
    first.train([3]), second.train([3])
    assert first.rows() == expected


def test_a_slot_that_is_not_there(sok, saved, caplog):
    first, path = saved
    other = Trained(sok, keras.optimizers.legacy.Adagrad(0.1))
    other.train([3])
    before = other.rows()
    with pytest.raises(tf.errors.NotFoundError, match="slots/accumulator.*assign_from"):
        other.checkpoint.restore(path)
    assert other.rows() == before
    assign_from(other.table, path, TABLE)
    assert other.rows() == first.rows()
    late = Trained(sok, keras.optimizers.legacy.Adagrad(0.1))
    late.checkpoint.restore(path)
    assert late.rows() == first.rows()
    late.train([3])
    assert "starts afresh" in caplog.text and "slots/m" in caplog.text


@pytest.mark.parametrize("options, error, words", [
    (dict(dim=4), tf.errors.InvalidArgumentError, "width of 4"),
    (dict(capacity=2), tf.errors.ResourceExhaustedError, "3 keys .* capacity is 2"),
    (dict(key_dtype="uint32"), tf.errors.InvalidArgumentError, "key -1 .* not a uint32"),
])  # fmt: skip
def test_tables_of_another_kind(sok, saved, options, error, words):
    first, path = saved
    if "key_dtype" in options:
        first.train([-1])
        path = first.checkpoint.save(path)
    other = Trained(sok, **options)
    with pytest.raises(error, match=words):
        other.checkpoint.restore(path)
    assert other.rows() == {}


def test_tables_that_are_not_on_both_sides(sok, saved):
    first, path = saved
    more = tf.train.Checkpoint(layer=first.layer, other=Trained(sok).layer)
    with pytest.raises(AssertionError, match="EmbeddingVariable_1"):
        more.restore(path).assert_existing_objects_matched()
    if has_keras_2:  # an optimizer of Keras 3 holds what it trains
        with pytest.raises(AssertionError, match="layer/var"):
            tf.train.Checkpoint(optimizer=first.optimizer).restore(path).assert_consumed()
    tf.train.Checkpoint(optimizer=first.optimizer).restore(path).expect_partial()


def test_a_checkpoint_that_is_gone_when_slots_are_made(sok, saved, tmp_path):
    late = Trained(sok)
    late.checkpoint.restore(saved[1])
    for file in tmp_path.glob("model*"):
        file.unlink()
    with pytest.raises(tf.errors.DataLossError, match="must stay until .* have made their slots"):
        late.train([3])


@pytest.mark.parametrize("save", [
    lambda each, path: tf.saved_model.save(each.layer, path),
    lambda each, path: each.checkpoint.save(
        path, tf.train.CheckpointOptions(experimental_enable_async_checkpoint=True)
    ),
], ids=["saved model", "asynchronous"])  # fmt: skip
def test_what_would_be_without_keys(sok, saved, tmp_path, save):
    with pytest.raises((NotImplementedError, ValueError), match="the table EmbeddingVariable"):
        save(saved[0], str(tmp_path / "folder" / "model"))


@pytest.mark.parametrize("name", ["Adagrad", "Adam"])
def test_legacy_optimizers_need_no_scope(sok, tmp_path, name):
    trained, other = (Trained(sok, getattr(keras.optimizers.legacy, name)(0.1)) for _ in range(2))
    trained.scope = other.scope = contextlib.nullcontext
    trained.train([3, 1], [4, 3])
    path = trained.checkpoint.save(str(tmp_path / "model"))
    trained.train([3, 1])
    other.checkpoint.restore(path)  # before it has slots
    other.train([3, 1])
    assert other.rows() == trained.rows()


def test_slots_that_do_not_know_their_keys(sok, tmp_path):
    class WithRandomSlots(keras.optimizers.legacy.SGD):
        def _create_slots(self, var_list):
            for variable in var_list:
                self.add_slot(variable, "random", keras.initializers.RandomUniform(seed=1))

    trained = Trained(sok, WithRandomSlots(0.1))
    gradient = tf.IndexedSlices(tf.ones([0, 3]), tf.zeros([0], tf.int64), [16, 3])
    with pytest.raises(NotImplementedError, match="random.*start as a constant"):
        trained.optimizer.apply_gradients([(gradient, trained.table)])


def test_slots_of_a_variable_whose_name_ends_as_a_table_is_called(tmp_path):
    def trained(steps):
        table = Table(None, 4, "zeros", name="named")
        dense = tf.Variable(tf.ones([6, 4]), name="tower/named")
        optimizer = keras.optimizers.Adam(0.1)
        checkpoint = tf.train.Checkpoint(table=table, dense=dense, optimizer=optimizer)
        for _ in range(steps):
            with tf.GradientTape() as tape:
                (rows,) = lookup_group([Lookup(table, tf.constant([1, 2], tf.int64))], True)
                loss = tf.reduce_sum(tf.sin(rows)) + tf.nn.l2_loss(dense)
            optimizer.apply_gradients(zip(tape.gradient(loss, [table, dense]), [table, dense]))
        return checkpoint

    save_tables_in_checkpoints()
    saved, restored = trained(2), trained(1)
    restored.restore(saved.save(str(tmp_path / "model")))
    for mine, other in zip(saved.optimizer.variables, restored.optimizer.variables):
        tf.debugging.assert_equal(mine, other)
