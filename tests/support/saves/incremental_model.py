# SPDX-License-Identifier: Apache-2.0
"""Tables with an IncrementalSaver, the same for any number of ranks."""

import numpy as np
import tensorflow as tf

import sok_compat as sok
from tests.support.cases.optimizer_cases import ALL_OPTIMIZERS
from tests.support.saves.saved_table import SavedTable

tf1 = tf.compat.v1
ROOM = 24  # keys, over all ranks
_NUMBERS = np.random.default_rng(3)
BATCHES = [_NUMBERS.integers(0, ROOM, 12), *_NUMBERS.integers(0, ROOM, [3, 4])]  # of all ranks
ADAM = next(case for case in ALL_OPTIMIZERS if case.name == "tf1.Adam")


class IncrementalModel:
    """Two tables with slots and an ordinary variable, in the default graph."""

    def __init__(self, size, rank):
        """Of this rank, of so many."""
        sok.Init(global_batch_size=12, seed=7)
        self._size, self._rank = size, rank
        steps = tf1.train.get_or_create_global_step()
        self.tables = {
            "hash": SavedTable("unused", capacity=ROOM, optimizer=ADAM),
            "direct": SavedTable(
                "unused", use_hashtable=False, capacity=ROOM // size, optimizer=ADAM
            ),
        }
        with tf.control_dependencies([table.step for table in self.tables.values()]):
            self.step = steps.assign_add(1)
        self.steps = steps
        self.init = tf1.global_variables_initializer()
        self.saver = sok.IncrementalSaver()

    def feeds(self, keys):
        """Of this rank; a rank that has none gives some again."""
        mine = keys[self._rank :: self._size]
        return {table.keys: mine for table in self.tables.values()}

    def contents(self, session):
        """{table: {key: row}}, of this rank, and the steps."""
        rows = {name: table.rows(session) for name, table in self.tables.items()}
        return rows, int(session.run(self.steps))

    def save_series(self, session, path):
        """A whole checkpoint and an increment after each batch: (their paths, what was saved last,
        what comes of one batch more)."""
        session.run(self.init)
        paths = []
        for number, keys in enumerate(BATCHES):
            session.run(self.step, self.feeds(keys))
            paths.append(self.saver.save_increment(session, path, number))
        return paths, self.contents(session), self.go_on(session)

    def resume(self, session, path):
        """(what is restored, what comes of one batch more)."""
        session.run(self.init)
        session.run(self.step, self.feeds(np.arange(ROOM)))
        self.saver.restore(session, path)
        return self.contents(session), self.go_on(session)

    def go_on(self, session):
        """Trains."""
        session.run(self.step, self.feeds(np.arange(ROOM)[::-1]))
        return self.contents(session)
