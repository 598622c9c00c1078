# SPDX-License-Identifier: Apache-2.0
"""Steps of two ranks of which one is refused memory; after each comes one that is right again."""

import contextlib
import itertools
import resource
from pathlib import Path

import numpy as np
import tensorflow as tf

import sok_compat as sok
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.tables import Table
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config

tf1 = tf.compat.v1
DIM, MANY = 64, 400_000  # 100 MB of rows
FEW = np.arange(100)
BYTES_BEYOND = 40_000_000


@contextlib.contextmanager
def refused_more_than(num_bytes):
    """The address space of this process may grow by so many bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit = pages * resource.getpagesize() + num_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


class Model:
    """A lookup of whatever keys, and its gradient."""

    def __init__(self, session):
        sok.Init(global_batch_size=SIZE, seed=3)
        table = Table(None, DIM, "random_normal", name="table")
        self._session, self._keys = session, tf1.placeholder(tf.int64, [None])
        (self._rows,) = lookup_group([Lookup(table, self._keys)], True)
        (slices,) = tf.gradients(tf.reduce_sum(self._rows), [table])
        self._train = tf.group(slices.values, slices.indices)
        session.run(tf1.global_variables_initializer())

    def step(self, keys):
        """The rows of the first of these keys."""
        rows, _ = self._session.run([self._rows, self._train], {self._keys: keys})
        return rows[: len(FEW)]

    def error_of_step(self, keys, is_refused):
        """(its class, its message), or None."""
        limit = refused_more_than(BYTES_BEYOND) if is_refused else contextlib.nullcontext()
        with limit:
            try:
                self.step(keys)
            except tf.errors.OpError as error:
                return type(error).__name__, error.message
        return None


def run(session):
    """{(rank that is refused memory, rank that looks up many keys, whether tables have them):
    error of this rank}."""
    model = Model(session)
    expected = model.step(FEW)
    errors = {}
    for case in itertools.product((0, 1), (0, 1), (True, False)):
        refused, asking, are_known = case
        many = np.arange(MANY) if are_known else np.arange(MANY) + (1 + len(errors)) * MANY
        keys = many if asking == RANK else FEW
        if are_known:
            model.step(keys)
        errors[case] = model.error_of_step(keys, is_refused=refused == RANK)
        np.testing.assert_array_equal(model.step(FEW), expected)
    return errors


if __name__ == "__main__":
    with tf.Graph().as_default(), tf1.Session(config=session_config()) as session:
        report(run(session))
