# SPDX-License-Identifier: Apache-2.0
"""Trains two models in threads of one session, and saves beside them. Argument: a folder."""

import sys
import threading
import time

import numpy as np
import tensorflow as tf

import sok_compat as sok
from sok_compat.runtime.shared_texts import value_of_rank_0
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config

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
            sok.All2AllDenseEmbedding(NUM_KEYS, 4, 1, 1, dynamic_input=True) for _ in range(2)
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


def run(folder):
    with tf.Graph().as_default():
        sok.Init(global_batch_size=SIZE, seed=3)
        models = [Model(name) for name in MODELS]
        saver = tf1.train.Saver(max_to_keep=NUM_SAVES)
        init = tf1.global_variables_initializer()
        with tf1.Session(config=session_config(threads=1, rewrites=False)) as session:
            session.run(init)
            coord = tf1.train.Coordinator()
            makers = tf1.train.start_queue_runners(session, coord)
            saved, paths = threading.Event(), []
            trainers = [Trainer(*each, session, saved) for each in zip(MODELS, models)]
            for trainer in trainers:
                trainer.start()
            for step in range(NUM_SAVES):
                for trainer in trainers:
                    trainer.wait_for_step()
                paths.append(saver.save(session, f"{folder}/model", step))
            saved.set()
            for trainer in trainers:
                trainer.join()
            coord.request_stop()
            coord.join(makers)
    steps = [steps_in(path, models) for path in paths] if RANK == 0 else None
    report({"steps": steps, "errors": [trainer.error for trainer in trainers]})


if __name__ == "__main__":
    run(sys.argv[1])
