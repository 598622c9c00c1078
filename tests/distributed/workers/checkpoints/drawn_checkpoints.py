# SPDX-License-Identifier: Apache-2.0
"""Trains tables that are drawn from a seed, from the newest checkpoint on; saves after each step.

Arguments: the folder, which may be empty; the seed; the last step, or "none": to be killed.
"""

import itertools
import sys

import numpy as np
import tensorflow as tf

import sok_compat as sok
from tests.distributed.workers.checkpoints.checkpoints import OPTIMIZERS, ROOM
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config
from tests.support.processes.killed_children import may_be_killed
from tests.support.saves.saved_table import SavedTable

tf1 = tf.compat.v1
KINDS = [
    "tf1.Adam", "tf1.Adagrad", "Adagrad outside", "tf1.GradientDescent", "tf1.RMSProp-centered",
    "legacy.Ftrl", "LazyAdam", "sok.optimizers.Adam", "tf1.Momentum",
]  # fmt: skip


class DrawnModel:
    """Tables of some forms and optimizers, in the default graph, and the checkpoints of all."""

    def __init__(self, folder, seed):
        draw = np.random.default_rng(seed)
        self._folder, self._seed = folder, seed
        self._steps = tf1.train.get_or_create_global_step()
        self.tables = [self._drawn_table(draw) for _ in range(draw.integers(1, 4))]
        count = tf1.assign_add(self._steps, 1)
        self._step = [table.step for table in self.tables] + [count]
        self._init = tf1.global_variables_initializer()
        self._saver = tf1.train.Saver(max_to_keep=2)

    @staticmethod
    def _drawn_table(draw):
        use_hashtable = bool(draw.integers(2))
        return SavedTable(
            "unused",
            use_hashtable=use_hashtable,
            key_dtype=str(draw.choice(["int64", "uint32"])),
            capacity=ROOM if use_hashtable else ROOM // SIZE,
            optimizer=OPTIMIZERS[str(draw.choice(KINDS))],
            dim=int(draw.choice([1, 3, 8])),
        )

    def start(self, session):
        """The number of the next step."""
        newest = tf.train.latest_checkpoint(self._folder)
        if newest:
            self._saver.restore(session, newest)
        else:
            session.run(self._init)
        return int(session.run(self._steps)) + 1

    def train(self, session, number):
        feeds = {}
        for place, table in enumerate(self.tables):
            draw = np.random.default_rng([self._seed, number, place])
            keys = draw.integers(0, ROOM, draw.integers(1, 20))
            feeds[table.keys] = keys[RANK::SIZE]
        session.run(self._step, feeds)

    def save(self, session, number):
        """Each second one is in the place of the one before."""
        self._saver.save(
            session, f"{self._folder}/model", global_step=number // 2, write_meta_graph=False
        )


def run(folder, seed, last):
    """[what each table holds] after the last step."""
    is_resumed = tf.train.latest_checkpoint(folder) is not None
    sok.Init(global_batch_size=12, seed=seed + is_resumed)  # the checkpoint has the first one
    tf1.set_random_seed(11)
    model = DrawnModel(folder, seed)
    with tf1.Session(config=session_config(rewrites=False)) as session:
        first = model.start(session)
        for number in itertools.count(first) if last is None else range(first, last + 1):
            model.train(session, number)
            model.save(session, number)
            if number == first:
                may_be_killed(folder, RANK)
        return [table.rows(session) for table in model.tables]


if __name__ == "__main__":
    folder, seed, last = sys.argv[1:]
    report(run(folder, int(seed), None if last == "none" else int(last)))
