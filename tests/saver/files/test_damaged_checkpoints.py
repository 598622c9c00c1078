# SPDX-License-Identifier: Apache-2.0
"""A restore that fails changes nothing, whatever is wrong with the files, and raises a typed error;
so does the tool."""

import os

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from sok_compat.checkpoint.files import increments
from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.streams.stored_tensors import chain_of, tensors_in
from sok_compat.checkpoint.tool.command_line import main
from sok_compat.deeprec.optimizer_rules import stock_optimizers
from sok_compat.deeprec.variables import options
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from tests.support.cases.optimizer_cases import STOCK_OPTIMIZERS
from tests.support.deeprec.deeprec_files import write_tensors
from tests.support.saves import damaged_files
from tests.support.saves.saved_table import SavedTable
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
ADAGRAD = STOCK_OPTIMIZERS[1]


class Tables:
    """Two tables with slots, a dense variable, strings and a global step: `step` changes all."""

    def __init__(self, folder):
        sok_compat.Init(global_batch_size=8, seed=3)
        tables = [SavedTable(folder, optimizer=ADAGRAD) for _ in range(2)]
        self._finish([table.table for table in tables],
                     [table.step for table in tables], {table.keys: [5, 3, 9] for table in tables},
                     {table.keys: [3, 7, 11] for table in tables})  # fmt: skip
        self.exports = [table.exported for table in tables]

    def _finish(self, tables, steps, before, after):
        self.before, self.after, self.tables = before, after, tables
        dense = tf1.get_variable("dense", [3], initializer=tf1.zeros_initializer())
        words = tf1.get_variable("words", initializer=tf.constant(["a", "bc"]))
        global_step = tf1.train.get_or_create_global_step()
        self.dense = [dense, words, global_step]
        self.advanced = [
            dense.assign_add([1.0, 2.0, 3.0]), global_step.assign_add(1), words.assign(words + "x")
        ]  # fmt: skip
        self.step = tf.group(steps, *self.advanced)


class Embeddings(Tables):
    """The same of DeepRec."""

    def __init__(self, folder):
        del folder
        keys = tf1.placeholder(tf.int64, [None])
        tables, outputs = [], []
        for name in "tu":
            option = options.EmbeddingVariableOption(filter_option=options.CounterFilter(2))
            table = get_embedding_variable(name, 3, ev_option=option)
            tables.append(table)
            outputs.append(tf.reduce_sum(tf.sin(tf.nn.embedding_lookup(table, keys))))
        step = stock_optimizers.AdagradOptimizer(0.1).minimize(tf.add_n(outputs))
        seen, more = [5, 3, 5, 3, 9, 1004], [3, 7, 7, 11]
        self._finish(tables, [step], {keys: seen}, {keys: more})
        self.exports = [table.export() for table in tables]


KINDS = {"tables": (Tables, tf1.train.Saver), "embeddings": (Embeddings, tf1.train.Saver),
         "increments": (Tables, sok_compat.IncrementalSaver)}  # fmt: skip


class Trained:
    """A session that has trained on since it saved."""

    def __init__(self, kind, folder, session):
        self.session, self.model, self.saver = session, *kind
        self.path, self.copy = f"{folder}/model-1", f"{folder}/model-2"

    def save(self):
        """Of an IncrementalSaver, an increment."""
        session, model = self.session, self.model
        session.run(model.step, model.before)
        self.saver.save(session, self.path)
        if isinstance(self.saver, sok_compat.IncrementalSaver):
            session.run(model.step, model.before)
            self.path = self.saver.save_increment(session, self.path + "-increment")
        self.saved = self.state()
        session.run(model.step, model.after)
        self.state_after = self.state()

    def state(self):
        """All that a checkpoint has of it, in an order of its own."""
        found = self.session.run(self.model.dense)
        exported = self.session.run(self.model.exports)
        for table, (keys, *planes) in zip(self.model.tables, exported):
            order = np.argsort(keys)
            found += [keys[order], *(p[order] for p in planes if len(p) == len(keys))]
            # Of a GPU, a slot may show more rows than are in use.
            found += [rows[: len(keys)] for rows in self.session.run(table.slots)]
        return found

    def try_damaged(self, what, damage):
        """Whether the restore of a damaged copy raises: then nothing has changed. Otherwise all is
        as it was saved, since nobody reads what is damaged; and it trains on."""
        damaged_files.copy(self.path, self.copy)
        damage(self.copy)
        try:
            self.saver.restore(self.session, self.copy)
        except (tf.errors.DataLossError, tf.errors.InvalidArgumentError, tf.errors.NotFoundError,
                tf.errors.FailedPreconditionError, ValueError):  # fmt: skip
            assert_same(self.state(), self.state_after, what)
            return True
        assert_same(self.state(), self.saved, what)
        self.session.run(self.model.step, self.model.after)
        self.state_after = self.state()
        return False


def assert_same(state, expected, what=""):
    assert len(state) == len(expected)
    for value, other in zip(state, expected):
        np.testing.assert_array_equal(value, other, what)


@pytest.fixture(params=KINDS)
def trained(request, graph, tmp_path):
    make_model, make_saver = KINDS[request.param]
    model = make_model(tmp_path)
    saver = make_saver()
    with initialized_session() as session:
        found = Trained((model, saver), tmp_path, session)
        found.save()
        yield found


def test_damaged_files_change_nothing(trained, capsys):
    damages = list(damaged_files.file_damages(trained.path, seed=5, num_flips=14))
    raised = [trained.try_damaged(what, damage) for what, damage in damages]
    assert sum(raised) > len(raised) * 0.5
    for what, damage in damages:
        damaged_files.copy(trained.path, trained.copy)
        damage(trained.copy)
        assert main(["show", trained.copy]) in ((2,) if ".data" in what else (0, 2))
    capsys.readouterr()


@pytest.mark.parametrize("kind", ["tables", "embeddings"])
def test_damage_changes_no_variable_beside_empty_tables(kind, graph, tmp_path):
    """Files of empty tables are not read before they are restored; variables come after them."""
    make_model, make_saver = KINDS[kind]
    model = make_model(tmp_path)
    saver = make_saver()
    with initialized_session() as session:
        found = Trained((model, saver), tmp_path, session)
        found.save()
    raised = 0
    with initialized_session() as session:
        for what, damage in damaged_files.file_damages(found.path, seed=3, num_flips=14):
            session.run(tf1.global_variables_initializer())
            session.run(model.advanced)
            before = session.run(model.dense)
            damaged_files.copy(found.path, found.copy)
            damage(found.copy)
            try:
                saver.restore(session, found.copy)
            except (tf.errors.OpError, ValueError):
                raised += 1
                assert_same(session.run(model.dense), before, what)
    assert raised > 7


def test_forged_indexes_change_nothing(trained, capsys):
    names = [name for name in tensors_in(trained.path) if "dense" not in name]
    forgeries = list(damaged_files.index_forgeries(names))
    forgeries = forgeries[:: len(names) // 6 + 1] + [
        ("header", damaged_files.forge_header),
        ("footer", damaged_files.forge_footer),
    ]
    raised = [trained.try_damaged(what, damage) for what, damage in forgeries]
    assert sum(raised) > len(raised) * 0.5
    for _, damage in forgeries:
        damaged_files.copy(trained.path, trained.copy)
        damage(trained.copy)
        assert main(["show", trained.copy]) in (0, 2)
    capsys.readouterr()
    trained.saver.save(trained.session, trained.copy)  # in the place of what nobody can read
    assert not trained.try_damaged("nothing", lambda prefix: None)


@pytest.mark.parametrize("kind", KINDS)
def test_what_does_not_fit_changes_nothing(kind, graph, tmp_path):
    """Files are as they were written, but the last variable has another shape."""
    make_model, make_saver = KINDS[kind]
    model, saver = make_model(tmp_path), make_saver()
    with initialized_session() as session:
        session.run(model.step, model.before)
        saver.save(session, f"{tmp_path}/model-1")
    with tf.Graph().as_default():
        other = make_model(tmp_path)
        other_variable = tf1.get_variable("zzz", [2], initializer=tf1.zeros_initializer())
        saver = make_saver([*tf1.global_variables()][:-1])
        wide = make_saver({v.op.name: v for v in tf1.global_variables()[:-1]}
                          | {"dense": other_variable})  # fmt: skip
        with initialized_session() as session:
            session.run(other.step, other.after)
            found = Trained((other, wide), tmp_path, session)
            before = found.state()
            with pytest.raises(tf.errors.InvalidArgumentError, match="dense.*has the shape"):
                wide.restore(session, f"{tmp_path}/model-1")
            assert_same(found.state(), before)


@pytest.mark.parametrize("what", ["keys", "keys_filtered"])
def test_empty_keys_beside_full_tensors(what, graph, tmp_path):
    """Of DeepRec's layout: they would restore an empty table."""
    model = Embeddings(tmp_path)
    saver = tf1.train.Saver(model.tables)
    path = f"{tmp_path}/model"
    with initialized_session() as session:
        session.run(model.step, model.before)
        saver.save(session, path)
        found = Trained((model, saver), tmp_path, session)
        before = found.state()
        reader = tf.train.load_checkpoint(path)
        tensors = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
        write_tensors(path, {**tensors, f"t-{what}": np.zeros([0], np.int64)})
        with pytest.raises(tf.errors.InvalidArgumentError, match="t-.* keys"):
            saver.restore(session, path)
        assert_same(found.state(), before)


WHOLE, FIRST, SECOND = ["a"], ["b", "m1", "a"], ["c", "m2", "b"]
SERIES = {  # {checkpoint: its entry}, of which the last is read; the chain, or words of an error
    "in no series": ({"m1": None}, ["m1"]),
    "whole": ({"m1": WHOLE}, ["m1"]),
    "two increments": ({"m1": WHOLE, "m2": FIRST, "m3": SECOND}, ["m1", "m2", "m3"]),
    "base missing": ({"m2": FIRST, "m3": SECOND}, "m1.index is missing"),
    "base replaced": ({"m1": ["z"], "m2": FIRST}, "m1.index has been replaced since"),
    "base in no series": ({"m1": None, "m2": FIRST}, "m1.index has been replaced since"),
    "two strings": ({"m1": ["a", "b"]}, "expected 1 or 3"),
    "none": ({"m1": []}, "expected 1 or 3"),
    "its own base": ({"m1": ["a", "m1", "a"]}, "increment of itself"),
    "a circle": ({"m1": ["a", "m2", "b"], "m2": FIRST}, "increment of itself"),
    "elsewhere": ({"m1": ["a", "../m1", "b"]}, "not a name in its folder"),
    "without a name": ({"m1": ["a", "", "b"]}, "not a name in its folder"),
}


@pytest.mark.parametrize("entries, expected", SERIES.values(), ids=SERIES)
def test_both_callers_of_the_reader_of_series_say_the_same(tmp_path, entries, expected):
    """The op library's and that of the tool, which needs no TensorFlow; none reads for ever."""
    for name, entry in entries.items():
        series = {} if entry is None else {"sok_compat/series": np.array(entry, object)}
        write_tensors(f"{tmp_path}/{name}", {"other": np.zeros(1), **series})
    path = f"{tmp_path}/{[*entries][-1]}"
    if isinstance(expected, list):
        assert [os.path.basename(each) for each in chain_of(path)] == expected
        assert [os.path.basename(each) for each in increments.chain_of(path)] == expected
        return
    with pytest.raises(tf.errors.OpError, match=expected):
        chain_of(path)
    with pytest.raises(FileError, match=expected):
        increments.chain_of(path)
    assert main(["show", path]) == 2
