# SPDX-License-Identifier: Apache-2.0
"""Restores the dumps in folders, each by a graph of its own; trains and dumps another.

Arguments: the folder to dump into ('-': none), then those to restore.
"""

import os
import sys
from concurrent import futures

import numpy as np
import tensorflow as tf

import sok_compat as sok
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config
from tests.support.saves.saved_table import DIM, SavedTable

ROOM = 24  # keys, over all ranks, of a table without a hash table
NUM_LOADED = 11
NUM_DUMPED, NUM_ROUNDS = 100_000, 8  # keys, over all ranks
KEYS = {  # of each table, over all ranks
    "hash": [0, -1, 5, 2**40, -(2**63), 7, 8, 9],
    "uint32": [0, 1, 2, 2**32 - 1, 6],
    "direct": list(range(0, ROOM, 5)),
    "on rank 0 only": [0, 12, 24, 120],
}


def make_tables(folder):
    """{name: SavedTable} in the default graph."""
    return {
        "hash": SavedTable(folder),
        "uint32": SavedTable(folder, key_dtype="uint32"),
        "direct": SavedTable(folder, use_hashtable=False, capacity=ROOM // SIZE),
        "on rank 0 only": SavedTable(folder),
    }


def new_session():
    return tf.compat.v1.Session(config=session_config(rewrites=False))


def rows_of(session, tables):
    return {name: table.rows(session) for name, table in tables.items()}


def train_and_dump(folder):
    """The rows that were dumped, of this rank."""
    with tf.Graph().as_default(), new_session() as session:
        sok.Init(global_batch_size=SIZE, seed=5)
        tables = make_tables(folder)
        session.run(tf.compat.v1.global_variables_initializer())
        for name, table in tables.items():
            session.run(table.step, {table.keys: KEYS[name][RANK::SIZE]})
        statuses = session.run([table.dump for table in tables.values()])
        assert statuses == [b"saved."] * len(tables)
        return rows_of(session, tables)


def restore(folder):
    """The rows that this rank has after a restore, over rows of before."""
    with tf.Graph().as_default(), new_session() as session:
        sok.Init(global_batch_size=SIZE, seed=77)
        tables = make_tables(folder)
        session.run(tf.compat.v1.global_variables_initializer())
        for table in tables.values():
            session.run(table.step, {table.keys: [1, 2, 3]})
        statuses = session.run([table.restore for table in tables.values()])
        assert statuses == [b"restored."] * len(tables)
        restored = rows_of(session, tables)
        for table in tables.values():  # training goes on
            session.run(table.step, {table.keys: [1, 2, 3]})
        return restored


def fail(folder):
    """What each rank sees where rank 0 can neither dump nor restore: the errors, and whether the
    table is as it was."""
    with tf.Graph().as_default(), new_session() as session:
        sok.Init(global_batch_size=SIZE, seed=5)
        table = SavedTable(folder)
        place = tf.compat.v1.placeholder(tf.string, [])
        saver = sok.Saver()
        dump, restore_it = (
            method(table.table, place) for method in (saver.dump_to_file, saver.restore_from_file)
        )
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(table.step, {table.keys: [1, 2, 3]})
        before = table.rows(session)
        errors = []
        for op, where in ((dump, "EmbeddingVariable.dump/x"), (restore_it, "missing")):
            try:
                session.run(op, {place: f"{folder}/{where}"})
            except tf.errors.OpError as error:
                errors.append((type(error).__name__, str(error)))
        after = table.rows(session)
        assert session.run(dump, {place: f"{folder}/again"}) == b"saved."
        is_there = os.path.exists(f"{folder}/again/EmbeddingVariable_values.file")
        same = before.keys() == after.keys() and all(
            np.array_equal(before[key], after[key]) for key in before
        )
        return errors, same, is_there


def run_for_error(session, op, feeds):
    """(the kind, the message) of the error; what it returns without one."""
    try:
        return session.run(op, feeds)
    except tf.errors.OpError as error:
        return type(error).__name__, str(error)


def end_apart(folder):
    """What each rank sees where the last one fails before it dumps; of a dump after it; and where
    the last one restores another dump."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        sok.Init(global_batch_size=SIZE, seed=5)
        table = SavedTable(folder)
        place = tf.compat.v1.placeholder(tf.string, [])
        is_good = tf.compat.v1.placeholder_with_default(True, [])
        with tf.control_dependencies([tf.debugging.Assert(is_good, ["a check of the script"])]):
            dump = sok.Saver().dump_to_file(table.table, tf.identity(place))
        restore_it = sok.Saver().restore_from_file(table.table, place)
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(table.step, {table.keys: [1, 2, 3]})
        is_last = RANK == SIZE - 1
        failed = run_for_error(session, dump, {place: f"{folder}/one", is_good: not is_last})
        seen = [failed] + [run_for_error(session, dump, {place: f"{folder}/one"})]
        session.run(table.step, {table.keys: [1, 2, 3]})
        session.run(dump, {place: f"{folder}/two"})
        before = table.rows(session)
        other = f"{folder}/one" if is_last else f"{folder}/two"
        seen.append(run_for_error(session, restore_it, {place: other}))
        after = table.rows(session)
        assert all(np.array_equal(before[key], after[key]) for key in before)
        return seen


def cross(folder):
    """Dumps and restores of one table at once, in any order on each rank: both end."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        sok.Init(global_batch_size=SIZE, seed=5)
        table = SavedTable(folder)
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(table.step, {table.keys: [1, 2, 3]})
        session.run(table.dump)
        with futures.ThreadPoolExecutor() as pool:
            for _ in range(10):
                both = [table.dump, table.restore][:: 1 if RANK % 2 else -1]
                for running in [pool.submit(session.run, op) for op in both]:
                    running.result()
        return len(table.rows(session))


def dump_and_restore_at_once(folder):
    """In how many rounds a restore that follows a dump at once gave what was dumped."""
    with tf.Graph().as_default(), new_session() as session:
        sok.Init(global_batch_size=SIZE, seed=5)
        table = SavedTable(folder, capacity=NUM_DUMPED)
        session.run(tf.compat.v1.global_variables_initializer())
        keys = np.arange(RANK, NUM_DUMPED, SIZE)
        num_same = 0
        for _ in range(NUM_ROUNDS):
            session.run(table.step, {table.keys: keys})
            _, dumped = session.run(table.exported)
            session.run(table.dump)
            session.run(table.restore)
            _, restored = session.run(table.exported)
            num_same += np.array_equal(np.sort(restored, axis=0), np.sort(dumped, axis=0))
        return num_same


def load():
    """The rows that this rank has after load_embedding_values."""
    with tf.Graph().as_default(), new_session() as session:
        sok.Init(global_batch_size=SIZE)
        tables = make_tables("unused")
        session.run(tf.compat.v1.global_variables_initializer())
        values = np.arange(NUM_LOADED * DIM).reshape(NUM_LOADED, DIM)
        for table in tables.values():
            assert session.run(table.load, {table.values: values}) == b"loaded."
        return rows_of(session, tables)


if __name__ == "__main__":
    dump_folder, *restore_folders = sys.argv[1:]
    seen = {"restored": [restore(folder) for folder in restore_folders], "loaded": load()}
    if dump_folder != "-":
        seen["dumped"] = train_and_dump(dump_folder)
        seen["failed"] = fail(dump_folder)
        seen["apart"] = end_apart(f"{dump_folder}/apart")
        seen["crossed"] = cross(f"{dump_folder}/crossed")
        seen["at once"] = dump_and_restore_at_once(f"{dump_folder}/at once")
    report(seen)
