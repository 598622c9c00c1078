# SPDX-License-Identifier: Apache-2.0
"""Trains tables of all kinds, saves them with tf.train.Saver, restores what other numbers of ranks
have saved, and trains on; and dumps and restores rows with sok.Saver.

Arguments: the names of optimizers, with commas; then 'save FOLDER', 'resume FOLDER' or 'import
FOLDER' (which resumes, by a saver of an imported graph) each, or
'gather FOLDER' and 'scatter FOLDER', which do the same where each rank has a disk of its own, a
folder in that one, and rank 0 has the files.
"""

import contextlib
import functools
import os
import sys

import numpy as np
import tensorflow as tf

import sok_compat as sok
from sok_compat.deeprec.optimizer_rules import train_optimizers
from sok_compat.deeprec.variables.options import CounterFilter, EmbeddingVariableOption
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from sok_compat.runtime.settings import CHECKPOINTS_ON_RANK_0
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config
from tests.support.cases.optimizer_cases import ALL_OPTIMIZERS, OptimizerCase
from tests.support.saves.saved_table import DIM, SavedTable

tf1 = tf.compat.v1
DUMPED = ("hash", "direct")  # with sok.Saver
ROOM = 24  # keys, over all ranks, of a table without a hash table
OUTSIDE = OptimizerCase(
    "Adagrad outside", lambda: tf1.train.AdagradOptimizer(0.05)
)  # ordinary slots
OPTIMIZERS = {case.name: case for case in [*ALL_OPTIMIZERS, OUTSIDE]}
_NUMBERS = np.random.default_rng(3)
BATCHES = [_NUMBERS.integers(0, ROOM, 12) for _ in range(6)]  # of all ranks
FIRST, LAST = BATCHES[:3], BATCHES[3:]
assert set(np.ravel(LAST)) - set(np.ravel(FIRST))  # keys whose first values come after the restore
GIVEN = _NUMBERS.normal(size=[ROOM, DIM]).astype("float32")
EVERY_KEY = np.arange(-3, ROOM + 3)


class DeepRecTable:
    """An embedding variable with what SavedTable has."""

    def __init__(self, name, optimizer, global_step=None, after=(), num_parts=None, **option):
        self.keys = tf1.placeholder(tf.int64, [None])
        partitioner = num_parts and tf1.fixed_size_partitioner(num_parts)
        self.table = get_embedding_variable(
            name, DIM, ev_option=EmbeddingVariableOption(**option), partitioner=partitioner
        )
        tables = list(self.table) if num_parts else [self.table]
        with tf.control_dependencies(after):
            loss = tf.reduce_sum(tf.sin(self.table.sparse_read(self.keys))) / 12
            self.step = optimizer.minimize(loss, global_step, var_list=tables)
        self.exported = [each.export()[:2] for each in tables]

    def rows(self, session):
        keys, rows = map(np.concatenate, zip(*session.run(self.exported)))
        return dict(zip(keys.tolist(), rows))


class Sok2Table:
    """A variable of SparseOperationKit 2 with what SavedTable has."""

    def __init__(self, table, optimizer):
        self.keys, self.table = tf1.placeholder(tf.int64, [None]), table
        ids = tf.RaggedTensor.from_uniform_row_length(tf.math.floormod(self.keys, ROOM), 1)
        loss = tf.reduce_sum(tf.sin(sok.lookup_sparse(table, ids, combiners="sum")))
        self.step = optimizer.train_tables(tf.gradients(loss, [table]), [table])
        self.exported = table.export()

    rows = SavedTable.rows


class Model:
    """Its tables, an ordinary variable, and a saver of all."""

    def __init__(self, optimizer, seed, folder):
        sok.Init(global_batch_size=12, seed=seed)
        sok.init()  # of SparseOperationKit 2
        tf1.set_random_seed(11)
        steps = tf1.train.get_or_create_global_step()
        filtered = CounterFilter(filter_freq=2)
        self.tables = {
            "hash": SavedTable(folder, capacity=ROOM, optimizer=optimizer),
            "direct": SavedTable(
                folder, use_hashtable=False, capacity=ROOM // SIZE, optimizer=optimizer
            ),
            "deeprec": DeepRecTable("deeprec", train_optimizers.AdamAsyncOptimizer(0.01)),
            "parts": DeepRecTable("parts", train_optimizers.AdagradOptimizer(0.1), num_parts=3),
            "given": Sok2Table(sok.Variable(GIVEN, name="given"), optimizer),
            "limited": Sok2Table(
                sok.DynamicVariable(
                    DIM, "0.5", "hybrid", name="limited", init_capacity=ROOM, max_capacity=2 * ROOM
                ),
                OPTIMIZERS["tf1.Adagrad"],  # AdagradDA needs a capacity
            ),
        }
        # It counts the global step, which "deeprec" reads as its keys' version.
        self.tables["filtered"] = DeepRecTable(
            "filtered",
            train_optimizers.AdagradOptimizer(0.1),
            steps,
            after=[self.tables["deeprec"].step],
            filter_option=filtered,
        )
        dense = tf1.get_variable("dense", initializer=[1.0, 2.0])
        self.step = [table.step for table in self.tables.values()] + [dense.assign_add(2 * dense)]
        history = self.tables["filtered"].table.key_history(EVERY_KEY)
        self.numbers = [steps.read_value(), dense.read_value(), *history]
        self.init = tf1.global_variables_initializer()
        self.saver = tf1.train.Saver()

    def train(self, session, batches):
        for keys in batches:
            feeds = {table.keys: keys[RANK::SIZE] for table in self.tables.values()}
            session.run(self.step, feeds)

    def contents(self, session):
        rows = {name: table.rows(session) for name, table in self.tables.items()}
        return rows, session.run(self.numbers)

    def import_again(self, meta_graph):
        """From now on it uses the meta graph, which it imports, and the saver made there."""
        self.saver = tf1.train.import_meta_graph(meta_graph)
        self.step, self.numbers = in_this_graph([self.step, self.numbers])
        for table in self.tables.values():
            table.keys, table.exported = in_this_graph([table.keys, [*table.exported]])

    def dump(self, session):
        session.run([self.tables[name].dump for name in DUMPED])

    def restored_dump(self, session):
        """As contents."""
        session.run([self.tables[name].restore for name in DUMPED])
        return {name: self.tables[name].rows(session) for name in DUMPED}, None


def in_this_graph(elements):
    graph = tf1.get_default_graph()
    return tf.nest.map_structure(lambda each: graph.as_graph_element(each.name), elements)


def in_new_graph(optimizer, seed, folder, use):
    with tf.Graph().as_default():
        model = Model(OPTIMIZERS[optimizer], seed, f"{folder}/{optimizer}")
        with tf1.Session(config=session_config(rewrites=False)) as session:
            return use(session, model)


def save(folder, optimizer, dumps=True):
    """What is saved, and what comes of it without a stop."""

    def use(session, model):
        session.run(model.init)
        model.train(session, FIRST)
        path = model.saver.save(session, f"{folder}/{optimizer}/model", write_meta_graph=False)
        assert path == f"{folder}/{optimizer}/model"
        saved = model.contents(session)
        if dumps:
            model.dump(session)
        model.train(session, LAST)
        return saved, model.contents(session)

    return in_new_graph(optimizer, 5, folder, use)


def resume(folder, optimizer, dumps=True):
    """What is restored, also over what is there, what comes of it, and rows of the dump. The seed
    is another one."""

    def use(session, model):
        path = f"{folder}/{optimizer}/model"
        model.saver.restore(session, path)
        model.train(session, [EVERY_KEY[3:-3]])
        model.saver.restore(session, path)
        restored = model.contents(session)
        model.train(session, LAST)
        resumed = model.contents(session)
        return restored, resumed, model.restored_dump(session) if dumps else None

    return in_new_graph(optimizer, 77, folder, use)


def resume_imported(folder, optimizer):
    """As resume; what is restored has also been saved again by the imported graph."""
    with tf.Graph().as_default():
        model = Model(OPTIMIZERS[optimizer], 77, folder)
        meta_graph = tf1.train.export_meta_graph()
    config = session_config(rewrites=False)
    with tf.Graph().as_default(), tf1.Session(config=config) as session:
        model.import_again(meta_graph)
        model.saver.restore(session, f"{folder}/{optimizer}/model")
        again = f"{folder}/{optimizer}/imported on {SIZE}"
        model.saver.save(session, again, write_meta_graph=False)
        model.train(session, [EVERY_KEY[3:-3]])
        model.saver.restore(session, again)
        restored = model.contents(session)
        model.train(session, LAST)
        return restored, model.contents(session), None


def on_own_disk(do, folder, optimizer):
    """What `do` gives where the files are rank 0's."""
    own = f"{folder}/disk of {RANK}"
    os.makedirs(own, exist_ok=True)
    os.environ[CHECKPOINTS_ON_RANK_0.name] = "1"
    with contextlib.ExitStack() as stack:
        stack.callback(os.environ.pop, CHECKPOINTS_ON_RANK_0.name)
        return do(own, optimizer, dumps=False)


if __name__ == "__main__":
    optimizers = sys.argv[1].split(",")
    seen = {}
    for what in sys.argv[2:]:
        task, _, where = what.partition(" ")
        do = {
            "save": save,
            "resume": resume,
            "import": resume_imported,
            "gather": functools.partial(on_own_disk, save),
            "scatter": functools.partial(on_own_disk, resume),
        }[task]
        seen[what] = {optimizer: do(where, optimizer) for optimizer in optimizers}
    report(seen)
