# SPDX-License-Identifier: Apache-2.0
"""sok.IncrementalSaver on one process: what increments hold, and what is restored from them."""

import logging
import os
import resource
import shutil
import signal

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.checkpoint import assign_from, assign_rows, save_tables_in_checkpoints
from sok_compat.checkpoint.tool.command_line import main
from sok_compat.tables import Table, slot_for
from sok_compat.tables.key_history import KeyHistory
from tests.support.cases.optimizer_cases import ALL_OPTIMIZERS, OptimizerCase
from tests.support.saves.saved_table import SavedTable, assert_rows_equal
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
BY_NAME = {case.name: case for case in ALL_OPTIMIZERS}
OUTSIDE = OptimizerCase(
    "Adagrad outside", lambda: tf1.train.AdagradOptimizer(0.05)
)  # ordinary slots
OPTIMIZERS = [BY_NAME["tf1.Adam"], BY_NAME["tf1.Adagrad"], BY_NAME["LazyAdam"], OUTSIDE]
DIM = 3


def keys_in(path, table):
    """Those that an increment holds, sorted; None: it is a whole checkpoint."""
    reader = tf.train.load_checkpoint(path)
    name = f"{table.op.name}/keys.increment"
    return sorted(reader.get_tensor(name).tolist()) if reader.has_tensor(name) else None


class Model:
    """A trained table and an ordinary variable, with an IncrementalSaver."""

    session = whole = None  # of the fixture

    def __init__(self, sok, folder, **options):
        self.saved = SavedTable("unused", **options)
        self.table = self.saved.table
        self.dense = tf1.get_variable("dense", initializer=1.0)
        self.step = [self.saved.step, self.dense.assign_add(1.0)]
        self.saver = sok.IncrementalSaver(max_to_keep=2)
        self.path = f"{folder}/model"

    def train(self, session, *batches):
        for keys in batches:
            session.run(self.step, {self.saved.keys: keys})

    def train_and_save(self, number):
        """The path of an increment."""
        self.train(self.session, [number])
        return self.saver.save_increment(self.session, self.path, number)

    def state(self, session):
        return self.saved.rows(session), session.run(self.dense)


def assert_states_equal(actual, expected):
    assert_rows_equal(actual[0], expected[0])
    assert actual[1] == expected[1]


@pytest.fixture
def model(sok, tmp_path):
    """With a whole checkpoint of the keys 5, 3, 8, and a session."""
    made = Model(sok, tmp_path, optimizer=BY_NAME["tf1.Adagrad"])
    with initialized_session() as session:
        made.session = session
        made.train(session, [5, 3, 8])
        made.whole = made.saver.save(session, made.path, 0)
        yield made


@pytest.mark.parametrize(
    "optimizer, use_hashtable",
    [*((each, True) for each in OPTIMIZERS), (OPTIMIZERS[0], False)],
    ids=str,
)
def test_training_goes_on_as_if_it_had_not_stopped(sok, tmp_path, optimizer, use_hashtable):
    """From each of a chain; the tables are used between."""
    model = Model(sok, tmp_path, optimizer=optimizer, use_hashtable=use_hashtable)
    batches = [[5, 3, 8], [3, 11], [1, 5], [9, 3]]
    with initialized_session() as session:
        paths, states = [], []
        for number, keys in enumerate(batches):
            model.train(session, keys)
            states.append(model.state(session))
            paths.append(model.saver.save_increment(session, model.path, number))
        assert [keys_in(path, model.table) is None for path in paths] == [True] + 3 * [False]
        model.train(session, [8, 2, 3])
        last = model.state(session)
        for path, state in zip(paths, states):
            model.saver.restore(session, path)
            assert_states_equal(model.state(session), state)
        model.train(session, [8, 2, 3])  # from the last one
        assert_states_equal(model.state(session), last)


def row_of(model, key, value):
    """An op of TensorFlow's alone that changes the row of a key, by row id."""
    keys = model.session.run(model.table.export())[0].tolist()
    return tf.raw_ops.ResourceScatterAdd(
        resource=model.table.handle, indices=[keys.index(key)], updates=[[value] * DIM]
    )


CHANGES = {
    "nothing": (lambda model: tf.no_op(), []),
    "TensorFlow's op": (lambda model: row_of(model, 3, 0.5), [3]),
    "-0.0": (lambda model: row_of(model, 3, 0.0), []),
    "all rows": (lambda model: model.table.assign(2.0 * model.table.value()), [3, 5, 8]),
    "a slot": (
        lambda model: tf.raw_ops.ResourceScatterAdd(
            resource=model.table.slots[0].handle, indices=[1], updates=[[1.0] * DIM]
        ),
        [3],
    ),
}


@pytest.mark.parametrize("change, keys", CHANGES.values(), ids=CHANGES)
def test_an_increment_holds_what_has_changed(model, change, keys):
    """Whatever has changed it; nothing twice."""
    model.session.run(change(model))
    state = model.state(model.session)
    path = model.saver.save_increment(model.session, model.path, 1)
    assert keys_in(path, model.table) == keys
    assert keys_in(model.saver.save_increment(model.session, model.path, 2), model.table) == []
    model.train(model.session, [3, 9])
    model.saver.restore(model.session, path)
    assert_states_equal(model.state(model.session), state)


def test_a_lookup_that_inserts_is_a_change(model):
    model.session.run(model.saved.output, {model.saved.keys: [5, 12]})
    path = model.saver.save_increment(model.session, model.path, 1)
    assert keys_in(path, model.table) == [12]


REPLACEMENTS = {
    "restored": lambda model: model.saver.restore(model.session, model.whole),
    "initialized": lambda model: model.session.run(model.table.initializer),
    "loaded": lambda model: model.session.run(
        model.saved.load, {model.saved.values: np.ones([2, DIM], np.float32)}
    ),
}


@pytest.mark.parametrize("replace", REPLACEMENTS.values(), ids=REPLACEMENTS)
def test_other_contents_are_saved_whole(model, replace, caplog):
    replace(model)
    with caplog.at_level(logging.INFO, "sok_compat"):
        path = model.saver.save_increment(model.session, model.path, 1)
    assert keys_in(path, model.table) is None
    assert "model-0 was saved, some table has been replaced" in caplog.text
    model.train(model.session, [1])
    assert keys_in(model.saver.save_increment(model.session, model.path, 2), model.table) == [1]


def test_keys_that_are_evicted_are_gone(graph, tmp_path):
    """Also one whose row another key has now, and one that has come again. None leaves its history
    with its row."""
    from sok_compat.runtime.op_library import ops

    save_tables_in_checkpoints()
    table = Table(None, DIM, "ones", name="t", history=KeyHistory(evicts=True))
    keys = tf1.placeholder(tf.int64, [None])
    rows = tf.ones([tf.size(keys), DIM])
    insert = ops.sok_insert_rows(table.table_handle, keys, rows)
    note = ops.sok_import_history(table.table_handle, keys, tf.ones_like(keys), tf.zeros_like(keys))
    evict = ops.sok_evict_keys(table.table_handle, tf.constant(9, tf.int64), steps_to_live=1)
    from sok_compat.checkpoint import IncrementalSaver

    saver, exported, seen = IncrementalSaver(), table.export(), table.key_history(keys)
    with initialized_session() as session:
        session.run(insert, {keys: [1, 2, 3, 4]})
        session.run(note, {keys: [1, 2, 3]})
        saver.save(session, f"{tmp_path}/m", 0)
        assert session.run(evict) == 3
        session.run(insert, {keys: [7, 2]})
        path = saver.save_increment(session, f"{tmp_path}/m", 1)
        assert keys_in(path, table) == [2, 4, 7]  # of 4, eviction has noted a step
        gone = tf.train.load_variable(path, "t/gone.increment")
        assert gone.tolist() == [1, 3]
        assert sorted(session.run(exported)[0]) == [2, 4, 7]
        assert np.array(session.run(seen, {keys: [2, 4, 7]})).tolist() == [[1, 1, 1], [-1, 9, -1]]
        session.run(insert, {keys: [1, 5]})
        saver.restore(session, path)
        assert sorted(session.run(exported)[0]) == [2, 4, 7]
        assert np.array(session.run(seen, {keys: [2, 4, 7]})).tolist() == [[1, 1, 1], [-1, 9, -1]]


def test_keys_that_a_followed_checkpoint_lacks_are_gone(graph, tmp_path):
    """Also where a key with the same numbers has their row."""
    from sok_compat.checkpoint import IncrementalSaver
    from sok_compat.runtime.op_library import ops

    save_tables_in_checkpoints()
    table = Table(None, DIM, "ones", name="t")
    keys = tf1.placeholder(tf.int64, [None])
    rows = tf.ones([tf.size(keys), DIM])
    insert = ops.sok_insert_rows(table.table_handle, keys, rows)
    gone = tf.constant([1, 5], tf.int64)
    change = ops.sok_apply_changes(table.table_handle, keys, rows, gone)
    saver = IncrementalSaver()
    with initialized_session() as session:
        session.run(insert, {keys: [1, 2]})
        saver.save(session, f"{tmp_path}/m", 0)
        session.run(change, {keys: [7]})
        path = saver.save_increment(session, f"{tmp_path}/m", 1)
        assert keys_in(path, table) == [7]
        assert tf.train.load_variable(path, "t/gone.increment").tolist() == [1]


def test_what_was_not_saved_is_in_the_next_one(model, tmp_path):
    """A save that fails, here for want of disk, leaves its changes to the next."""
    model.train(model.session, [3, 9])
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (40, limits[1]))
        with pytest.raises(tf.errors.ResourceExhaustedError, match="model-1_temp_"):
            model.saver.save_increment(model.session, model.path, 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert tf.train.latest_checkpoint(str(tmp_path)) == model.whole
    model.train(model.session, [5])
    state = model.state(model.session)
    path = model.saver.save_increment(model.session, model.path, 2)
    assert keys_in(path, model.table) == [3, 5, 9]
    model.saver.restore(model.session, path)
    assert_states_equal(model.state(model.session), state)


def flip(path):
    with open(path, "r+b") as file:
        file.seek(-9, os.SEEK_END)
        byte = file.read(1)[0]
        file.seek(-9, os.SEEK_END)
        file.write(bytes([byte ^ 1]))


@pytest.mark.parametrize("is_noted", [False, True], ids=["while it saves", "before it is noted"])
def test_a_restore_in_another_thread(model, is_noted, monkeypatch, caplog):
    """Before the ops of the increment run, or before what was saved is noted."""
    saver, problem_of = model.saver, model.saver._problem

    def restore_after_the_check(session):
        monkeypatch.setattr(saver, "_problem", problem_of)
        problem = problem_of(session)
        saver.restore(session, model.whole)
        return problem

    if is_noted:
        with monkeypatch.context() as patch:
            restore = saver.restore
            patch.setattr(
                saver, "_RecordLastCheckpoint", lambda _: restore(model.session, model.whole)
            )
            saver.save_increment(model.session, model.path, 1)
    else:
        monkeypatch.setattr(saver, "_problem", restore_after_the_check)
    model.train(model.session, [7])
    with caplog.at_level(logging.INFO, "sok_compat"):
        path = saver.save_increment(model.session, model.path, 2)
    assert keys_in(path, model.table) is None
    assert "some table has been replaced" in caplog.text


def remove(prefix):
    for name in os.listdir(os.path.dirname(prefix)):
        if name.startswith(os.path.basename(prefix) + "."):
            os.remove(os.path.join(os.path.dirname(prefix), name))


MISSING, ANOTHER = "index is missing", "index has been replaced since"
DAMAGES = {
    "whole one missing": (
        lambda model, one: remove(model.whole),
        tf.errors.NotFoundError,
        f"model-0.{MISSING}",
    ),
    "increment missing": (
        lambda model, one: remove(one),
        tf.errors.NotFoundError,
        f"model-1.{MISSING}",
    ),
    "another whole one": (
        lambda model, one: model.saver.save(model.session, model.whole),
        tf.errors.FailedPreconditionError,
        f"model-0.{ANOTHER}",
    ),
    "a checkpoint of another saver": (
        lambda model, one: tf1.train.Saver([model.dense]).save(model.session, model.whole),
        tf.errors.FailedPreconditionError,
        f"model-0.{ANOTHER}",
    ),
    "a flipped bit": (
        lambda model, one: flip(f"{one}.data-00000-of-00001"),
        tf.errors.DataLossError,
        "model-1.data",
    ),
}


@pytest.mark.parametrize("damage, error, message", DAMAGES.values(), ids=DAMAGES)
def test_a_chain_that_is_broken_restores_nothing(model, damage, error, message):
    one, two = (model.train_and_save(number) for number in (1, 2))
    damage(model, one)
    model.train(model.session, [7])
    state = model.state(model.session)
    with pytest.raises(error, match=message):
        model.saver.restore(model.session, two)
    assert_states_equal(model.state(model.session), state)


def test_no_whole_checkpoint_goes_that_is_needed(model, tmp_path):
    """max_to_keep=2 counts whole ones; with one go its increments."""
    for number in range(1, 9):
        model.train(model.session, [number])
        if number % 3 == 0:
            model.saver.save(model.session, model.path, number, write_meta_graph=False)
        else:
            model.saver.save_increment(model.session, model.path, number)
    expected = [f"{model.path}-{number}" for number in (3, 4, 5, 6, 7, 8)]
    assert model.saver.last_checkpoints == expected
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert list(state.all_model_checkpoint_paths) == expected
    indexes = [name for name in os.listdir(tmp_path) if name.endswith(".index")]
    assert sorted(indexes) == [f"model-{number}.index" for number in range(3, 9)]
    again = type(model.saver)(max_to_keep=1)
    again.recover_last_checkpoints(expected)
    again.save(model.session, model.path, 9)
    assert again.last_checkpoints == [f"{model.path}-9"]
    assert [name for name in os.listdir(tmp_path) if name.endswith(".index")] == ["model-9.index"]


def test_what_is_asked_for_must_be_possible(model, sok, tmp_path):
    with pytest.raises(ValueError, match="in the folder of that one"):
        model.saver.save_increment(model.session, f"{tmp_path}/elsewhere/model", 1)
    with pytest.raises(ValueError, match="model-0 is needed to restore the increment"):
        model.saver.save_increment(model.session, model.path, 0)
    with pytest.raises(ValueError, match="no table"):
        sok.IncrementalSaver([model.dense]).save_increment(model.session, model.path)
    with pytest.raises(ValueError, match="its own builder"):
        sok.IncrementalSaver(builder=None)
    with pytest.raises(ValueError, match="one of save_secs and save_steps"):
        sok.IncrementalSaverHook(model.saver, str(tmp_path))
    with pytest.raises(TypeError, match="needs an IncrementalSaver, got Saver"):
        sok.IncrementalSaverHook(tf1.train.Saver(), str(tmp_path), save_secs=5)


def test_two_savers_take_each_others_base(model, sok):
    other = sok.IncrementalSaver()
    assert keys_in(other.save(model.session, f"{model.path}-other"), model.table) is None
    path = model.saver.save_increment(model.session, model.path, 1)
    assert keys_in(path, model.table) is None


def test_another_saver_saves_before_a_save_ends(model, sok, monkeypatch):
    """The next increment is not taken for one of the other's checkpoint."""
    other = sok.IncrementalSaver()
    with monkeypatch.context() as patch:
        path = f"{model.path}-other"
        patch.setattr(
            model.saver, "_RecordLastCheckpoint", lambda _: other.save(model.session, path)
        )
        model.train_and_save(1)
    path, state = model.train_and_save(2), model.state(model.session)
    model.train(model.session, [7])
    model.saver.restore(model.session, path)
    assert_states_equal(model.state(model.session), state)


def test_the_folder_may_be_moved_and_other_readers_follow(model, tmp_path, capsys):
    """assign_from, a plain tf.train.Saver, and the tool."""
    model.train(model.session, [3, 9])
    rows = model.state(model.session)[0]
    path = model.saver.save_increment(model.session, model.path, 1)
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in os.listdir(tmp_path):
        if name.startswith("model-"):
            shutil.move(tmp_path / name, moved / name)
    path = f"{moved}/model-1"
    assign, plain = assign_from(model.table, path), tf1.train.Saver()
    for restore in (lambda: model.session.run(assign), lambda: plain.restore(model.session, path)):
        model.train(model.session, [1, 9])
        restore()
        assert_rows_equal(model.state(model.session)[0], rows)
    assert main(["show", path]) == 0
    name = model.table.op.name
    output = capsys.readouterr().out
    assert f"increment of {moved}/model-0" in output
    assert f"table {name}: 2 keys new or changed, dim 3" in output
    assert main(["show", f"{moved}/model-0"]) == 0
    assert f"increment {path}\n" in capsys.readouterr().out
    assert main(["diff", path, path]) == 2
    assert "is an increment" in capsys.readouterr().err


def test_a_slot_that_is_made_later_is_in_no_chain(graph, tmp_path):
    """Whole checkpoints come where the slots of a table change."""
    save_tables_in_checkpoints()
    from sok_compat.checkpoint import IncrementalSaver

    table = Table(None, DIM, "ones", name="t")
    fill = assign_rows(table, tf.range(4, dtype=tf.int64), tf.ones([4, DIM]))
    first = IncrementalSaver()
    with initialized_session() as session:
        session.run(fill)
        first.save(session, f"{tmp_path}/m", 0)
        slot = slot_for(table, "optimizer", "slot", width=DIM, fill=0.5)
        second = IncrementalSaver()
        session.run(slot.initializer)
        path = second.save_increment(session, f"{tmp_path}/m", 1)
        assert keys_in(path, table) is None
        assert keys_in(second.save_increment(session, f"{tmp_path}/m", 2), table) == []
