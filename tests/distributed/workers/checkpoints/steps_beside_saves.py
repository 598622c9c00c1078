# SPDX-License-Identifier: Apache-2.0
"""Trains two models in threads of one session, and saves and dumps beside them.

Goes on from the newest checkpoint, of which rank 0 adds a line to the file "resumed": how many
steps it has of each model; what the dumps have, and their files. Arguments: a folder; "few", to
save some times there, or "kill": for ever.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from unittest import mock

import numpy as np
import tensorflow as tf

import sok_compat as sok
from sok_compat.checkpoint import dump_to_files, restore_from_files
from sok_compat.checkpoint.streams.dumps import DumpedTable, dump_tables, load_tables
from sok_compat.ranks.allgather_strings import value_of_rank_0
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config
from tests.support.processes.killed_children import may_be_killed

tf1 = tf.compat.v1
NUM_KEYS, NUM_SAVES, FIRST = 1000, 5, 0.5
MODELS = ("fed", "prefetched")


class Model:
    """Two tables and a variable; each step adds 1 to the slots of all of them, in all rows."""

    def __init__(self, name):
        keys = np.arange(NUM_KEYS)
        data = tf.data.Dataset.from_tensors(keys).repeat()
        batch = tf1.data.make_one_shot_iterator(data).get_next()
        if name == "prefetched":
            batch = sok.prefetch_lookups(batch)
        layers = [
            sok.All2AllDenseEmbedding(
                NUM_KEYS, 4, 1, 1, dynamic_input=True, embedding_initializer="ones"
            )
            for _ in range(2)
        ]
        self.tables = [layer.embedding_variable for layer in layers]
        self.dense = tf1.get_variable(name, [1])
        rows = [layer(batch) for layer in layers]
        factor = tf.where(tf.stop_gradient(rows[0][:1, 0]) < 1e6, 1.0, 0.0)  # 1, for who waits
        optimizer = tf1.train.AdagradOptimizer(0.1, initial_accumulator_value=FIRST)
        with sok.OptimizerScope(self.tables):
            self.step = optimizer.minimize(
                tf.reduce_sum(rows) / SIZE + tf.reduce_sum(self.dense * factor)
            )

    def dumped(self):
        return [
            DumpedTable(each, each.table_name, tf.int64, "headed", {("a", "a"): each.slots[0]})
            for each in self.tables
        ]

    def names_of_slots(self):
        return [f"{each.table_name}/Adagrad" for each in self.tables] + [
            f"{self.dense.op.name}/Adagrad"
        ]


class Trainer(threading.Thread):
    """Steps of a model until rank 0 has saved, on all ranks as many."""

    def __init__(self, name, model, session, saved):
        super().__init__(name=name)
        self._model, self._session, self._saved = model, session, saved
        self.num_steps, self.error = 0, None

    def run(self):
        graph = self._session.graph
        try:
            while not value_of_rank_0(f"saved_beside_{self.name}", self._saved.is_set, graph):
                self._session.run(self._model.step)
                self.num_steps += 1
        except Exception as error:  # noqa: BLE001  for the test to see
            self.error = repr(error)

    def wait_for_step(self):
        before = self.num_steps
        while self.is_alive() and self.num_steps == before:
            time.sleep(0.001)


def steps_in(path, models):
    """How many steps each row of a model has seen, each number once; a list for each model."""
    reader = tf.train.load_checkpoint(path)
    return [
        np.unique(np.concatenate([reader.get_tensor(name) for name in each.names_of_slots()], None))
        for each in models
    ]


def steps_in_dumps(folder, models):
    """As steps_in, of the tables of a dump; then the numbers in each pair of files, of its rows."""
    stems = [[each.table_name.replace("/", "_") for each in model.tables] for model in models]
    slots = [
        [np.fromfile(Path(folder, f"dump/{stem}-a-a"), "<f4", offset=296) for stem in of_model]
        for of_model in stems
    ]
    pairs = [
        np.fromfile(Path(folder, f"pairs/{each.table_name}_values.file"), "<f4")
        for model in models
        for each in model.tables
    ]
    return [*map(np.unique, slots), *map(np.unique, pairs)]


class SlowStep:
    """A step of a model that has updated all, and ends on the last rank when it is told to."""

    def __init__(self, model):
        self._queues = [tf1.FIFOQueue(1, tf.int64, []) for _ in range(2)]
        has_come, may_end = self._queues
        self._step = model.step
        if RANK == SIZE - 1:
            with tf.control_dependencies([model.step]):
                came = has_come.enqueue(tf.constant(0, tf.int64))
            with tf.control_dependencies([came]):
                self._step = may_end.dequeue()
        self._await, self._let_end = has_come.dequeue(), may_end.enqueue(tf.constant(0, tf.int64))

    def error_of(self, save, session):
        """That of a save beside it, as a string."""
        step = threading.Thread(target=session.run, args=(self._step,))
        step.start()
        if RANK == SIZE - 1:
            session.run(self._await)
        try:
            save()
        except tf.errors.DeadlineExceededError as error:
            return str(error)
        finally:
            if RANK == SIZE - 1:
                session.run(self._let_end)
            step.join()


class Job:
    """Both models, the savers of all, and a session, while it is entered."""

    def __init__(self, folder):
        sok.Init(global_batch_size=SIZE, seed=3)
        self._folder = folder
        self.models = [Model(name) for name in MODELS]
        self._slow_step = SlowStep(self.models[0])
        tables = [table for model in self.models for table in model.dumped()]
        self._dumps = [dump_tables(tf.constant(f"{folder}/dump"), tables)]
        self._loads = [load_tables(tf.constant(f"{folder}/dump"), tables)]
        for each in tables:
            self._dumps.append(dump_to_files(each.table, f"{folder}/pairs"))
            self._loads.append(restore_from_files(each.table, f"{folder}/pairs"))
        self.dumped = []  # what was in each dump
        self._saver = tf1.train.Saver(max_to_keep=NUM_SAVES + 3)
        with mock.patch.dict(os.environ, SOK_STALL_TIMEOUT_SECONDS="1"):
            self._hasty = tf1.train.Saver()
        init = tf1.global_variables_initializer()
        self._session = tf1.Session(config=session_config(threads=1, rewrites=False))
        self._session.run(init)
        self._coord = tf1.train.Coordinator()
        self._makers = tf1.train.start_queue_runners(self._session, self._coord)

    def close(self):
        self._coord.request_stop()
        self._coord.join(self._makers)
        self._session.close()

    def resume(self):
        """The number of the next checkpoint."""
        newest = tf.train.latest_checkpoint(self._folder)
        if newest is None:
            return 0
        load, *loads_of_pairs = self._loads
        dump, *dumps_of_pairs = self._dumps
        for ops in ([load, dump], [*loads_of_pairs, *dumps_of_pairs]):
            for op in ops:  # what a killed process has left is read, and cleared
                self._session.run(op)
        self._saver.restore(self._session, newest)
        if RANK == 0:
            folder = Path(self._folder)
            steps, dumped = steps_in(newest, self.models), steps_in_dumps(folder, self.models)
            files = {name: len(os.listdir(folder / name)) for name in ("dump", "pairs")}
            with (folder / "resumed").open("a") as lines:
                print(
                    json.dumps([*([e.tolist() for e in each] for each in (steps, dumped)), files]),
                    file=lines,
                )
        return int(newest.rpartition("-")[2]) + 1

    def save(self, name):
        return self._saver.save(self._session, f"{self._folder}/{name}")

    def train_and_save(self, numbers):
        """Saves once for each number; (paths, [the error of a trainer, or None])."""
        saved, paths = threading.Event(), []
        trainers = [Trainer(*each, self._session, saved) for each in zip(MODELS, self.models)]
        for trainer in trainers:
            trainer.start()
        for number in numbers:
            for trainer in trainers:
                trainer.wait_for_step()
            paths.append(self._saver.save(self._session, f"{self._folder}/model", number))
            for trainer in trainers:
                trainer.wait_for_step()
            for dump in self._dumps:
                self._session.run(dump)
            if RANK == 0 and len(self.dumped) < NUM_SAVES:
                self.dumped.append(steps_in_dumps(self._folder, self.models))
            if number == numbers[0]:
                may_be_killed(self._folder, RANK)
        saved.set()
        for trainer in trainers:
            trainer.join()
        return paths, [trainer.error for trainer in trainers]

    def fail_to_save(self):
        """(the error; what is in the checkpoints before, after, and after one that was restored)"""
        before = self.save("before")
        error = self._slow_step.error_of(
            lambda: self._hasty.save(self._session, f"{self._folder}/torn"), self._session
        )
        assert tf.train.latest_checkpoint(self._folder) == before
        after = self.save("after")
        self._saver.restore(self._session, before)
        self._session.run(self.models[0].step)
        return error, [before, after, self.save("again")]


def run(folder, what):
    with tf.Graph().as_default():
        job = Job(folder)
        first = job.resume()
        num_saves = {"few": NUM_SAVES, "kill": 10**6}[what]
        paths, errors = job.train_and_save(range(first, first + num_saves))
        failure, more = job.fail_to_save()
        job.close()
    steps = [steps_in(path, job.models) for path in paths + more] if RANK == 0 else None
    report({"steps": steps, "dumped": job.dumped, "errors": errors, "failure": failure})


if __name__ == "__main__":
    run(*sys.argv[1:])
