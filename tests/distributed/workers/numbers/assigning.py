# SPDX-License-Identifier: Apache-2.0
"""Assigns tables from files of all formats, on each rank from files of its own: first sound ones,
then where one rank's do not fit. Argument: a folder."""

import os
import sys

import numpy as np
import tensorflow as tf

from sok_compat.checkpoint import assign_from, assign_rows, dump_to_files
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from sok_compat.tables import Table
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config
from tests.support.deeprec.deeprec_files import tensors_of, write_tensors

KEYS = [0, -1, 5, 2**40, -(2**63), 7, 8, 9]
ROWS = {key: np.float32([key % 97, 1.0]) for key in KEYS}
SOURCES = ("rows", "buckets", "dump")


class Runner:
    """Runs what is made by a function, in a session or eagerly."""

    def __init__(self):
        self._session = None
        if not tf.executing_eagerly():
            self._session = tf.compat.v1.Session(config=session_config(rewrites=False))

    def initialize(self):
        if self._session:
            self._session.run(tf.compat.v1.global_variables_initializer())

    def __call__(self, make):
        made = make()
        return self._session.run(made) if self._session else made

    def error(self, make):
        """(the kind, the message) of what is raised; None: nothing."""
        try:
            self(make)
        except tf.errors.OpError as error:
            return type(error).__name__, str(error)
        return None


def write_checkpoints(folder):
    os.makedirs(folder)
    tensors = {"t/keys": np.array(KEYS), "t/rows": np.array(list(ROWS.values()))}
    write_tensors(f"{folder}/rows", tensors)
    write_tensors(f"{folder}/buckets", tensors_of("t", ROWS, 2, 3))
    with open(f"{folder}/rows.data-00000-of-00001", "rb") as file:
        content = bytearray(file.read())
    content[9] ^= 1
    write_tensors(f"{folder}/broken", tensors)
    with open(f"{folder}/broken.data-00000-of-00001", "wb") as file:
        file.write(content)


def contents(run, table):
    keys, rows = (np.asarray(tensor) for tensor in run(lambda: table.export()[:2]))
    return {int(key): tuple(map(float, row)) for key, row in zip(keys, rows)}


def assigned(run, table, folder, dump):
    """{source: what this rank holds after it}."""
    found = {}
    for source in SOURCES:
        run(lambda: assign_rows(table, [77], [[1.0, 2.0]]))
        path = dump if source == "dump" else f"{folder}/{source}"
        run(lambda path=path: assign_from(table, path, "t"))
        found[source] = contents(run, table)
    return found


def failed(run, table, folder):
    """Where the last rank's file is broken, and where its keys do not fit: the errors, and whether
    the rows stay."""
    is_last = RANK == SIZE - 1
    before = contents(run, table)
    keys = [RANK, RANK if is_last else RANK + SIZE]
    source = "broken" if is_last else "rows"
    errors = [
        run.error(lambda: assign_from(table, f"{folder}/{source}", "t")),
        run.error(lambda: assign_rows(table, keys, np.ones([2, 2]))),
    ]
    return errors, contents(run, table) == before


if __name__ == "__main__":
    shared = sys.argv[1]
    own = f"{shared}/{RANK}"
    with tf.Graph().as_default():  # of the checkpoints that are written
        write_checkpoints(own)
    run_it = Runner()
    plain = Table(16, 2, name="t")
    tables = {"plain": plain}
    if not tf.executing_eagerly():
        tables["of DeepRec"] = get_embedding_variable("v", 2)
    run_it.initialize()
    run_it(lambda: assign_rows(plain, KEYS, np.array(list(ROWS.values()))))
    run_it(lambda: dump_to_files(plain, f"{shared}/dump"))
    report({
        "assigned": {n: assigned(run_it, t, own, f"{shared}/dump") for n, t in tables.items()},
        "failed": failed(run_it, plain, own),
    })  # fmt: skip
