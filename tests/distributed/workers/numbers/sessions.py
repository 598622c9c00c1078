# SPDX-License-Identifier: Apache-2.0
"""Two threads: one session each of graphs that look alike, or of one graph, or other fetches.

With a number: two sessions of one graph in one thread, and the last rank raises before its lookup
in that step of the first session. With "again": initializers that some ranks run; with "failed":
initializers that all ranks run, after a lookup whose step failed on the last one. With "beside":
steps in which another op of the last rank fails while rows are exchanged.
"""

import itertools
import sys
import threading
import time

import numpy as np
import tensorflow as tf

import sok_compat as sok
from sok_compat.checkpoint.saver.tf_saver import save_tables_in_checkpoints
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.tables import Table
from tests.distributed.workers.ranks import (
    RANK,
    SIZE,
    report,
    session_config,
    wait_for_all_ranks,
)

NUM_STEPS = 15
NUM_KEYS = 30


def build(first_value):
    """(graph, init, output, sum of another layer's output)"""
    with tf.Graph().as_default() as graph:
        sok.Init(global_batch_size=SIZE, seed=3)
        initializer = tf.compat.v1.constant_initializer(first_value)
        layers = [
            sok.All2AllDenseEmbedding(
                40, 4, 1, 1, dynamic_input=True, embedding_initializer=initializer
            )
            for _ in range(2)
        ]
        keys = tf.random.uniform([7], maxval=NUM_KEYS, dtype=tf.int64)
        outputs = [layer(keys) for layer in layers]
        gradients = tf.gradients(outputs, [layer.embedding_variable for layer in layers])
        init = tf.compat.v1.global_variables_initializer()
        graph.finalize()
    return graph, init, [outputs[0], gradients[0]], [outputs[1], gradients[1]]


def sessions_of_one_graph():
    """([session], outputs, keys): all rows of the n-th session are n. Nothing has met other
    ranks."""
    with tf.Graph().as_default():
        first_value = tf.compat.v1.placeholder_with_default(0.0, [], "first_value")
        keys = tf.compat.v1.placeholder_with_default(np.arange(NUM_KEYS), [None])
        table = Table(
            NUM_KEYS,
            4,
            lambda shape, dtype: tf.fill(shape, tf.cast(first_value, dtype)),
            use_hash_index=False,
        )
        (rows,) = lookup_group([Lookup(table, keys)], insert=True)
        init = tf.compat.v1.global_variables_initializer()
        sessions = [tf.compat.v1.Session(config=session_config()) for _ in range(2)]
    for number, session in enumerate(sessions, 1):
        session.run(init, {first_value: number})
    return sessions, [rows, tf.gradients(rows, table)[0]], keys


def skip(step_to_skip):
    """[session] of [step] of its values, or of the type of what it raised."""
    sessions, outputs, keys = sessions_of_one_graph()
    seen = [[] for _ in sessions]
    wait_for_all_ranks()
    for step in range(3):
        for number, session in enumerate(sessions):
            is_refused = (RANK, step, number) == (SIZE - 1, step_to_skip, 0)
            try:
                feed = {keys: ["no key"]} if is_refused else {}
                seen[number].append(np.unique(session.run(outputs, feed)[0]).tolist())
            except (ValueError, tf.errors.OpError) as error:
                seen[number].append(type(error).__name__)
    return seen


def initialize_again():
    """What lookups of a session give or raise, after initializers that some ranks run."""
    (session, _), (rows, _), _ = sessions_of_one_graph()
    graph, last = session.graph, SIZE - 1
    first_value, path = graph.get_tensor_by_name("first_value:0"), sys.argv[2]
    save_tables_in_checkpoints()
    with graph.as_default():
        saver = tf.compat.v1.train.Saver()
    seen = []

    def look_up_after(ranks):
        wait_for_all_ranks(f"before {len(seen)}")
        if RANK in ranks:
            session.run("init", {first_value: 3.0})
        try:
            seen.append(np.unique(session.run(rows)).tolist())
        except tf.errors.OpError as error:
            seen.append(str(error))

    look_up_after([])
    look_up_after([last])
    look_up_after(range(last))
    saver.save(session, path)
    look_up_after([last])
    saver.save(session, f"{path}-beside")
    saver.restore(session, path)
    look_up_after([])
    return seen


def initialize_after_failed_lookup():
    """[what the failing lookup raises, values after two initializers each]."""
    steps = itertools.count()

    def fail_first(keys):
        if next(steps) == 0:
            time.sleep(0.5)
            raise ValueError("no rows today")
        return keys

    _, (rows, _), _ = sessions_of_one_graph()
    find_rows = next(op for op in rows.graph.get_operations() if op.type == "SokFindRows")
    if RANK == SIZE - 1:
        with rows.graph.as_default():
            # Once the keys have been exchanged, so that the other ranks find their rows meanwhile.
            failing = tf.compat.v1.py_func(fail_first, [find_rows.inputs[1]], tf.int64)
        find_rows._add_control_input(failing.op)
    session, seen = tf.compat.v1.Session(graph=rows.graph, config=session_config()), []
    session.run("init")
    try:
        session.run(rows)
    except tf.errors.OpError as error:
        seen.append(str(error))
    for value in (3.0, 4.0):
        wait_for_all_ranks(f"before {value}")
        session.run("init", {"first_value:0": value})
        seen.append(np.unique(session.run(rows)).tolist())
    return seen


def fail_beside_lookups():
    """[step] of whether the rows are those of the keys, or the error. Each second step fails."""
    random = np.random.default_rng(RANK)

    def fail_later(seconds):
        if seconds >= 0:
            time.sleep(seconds)
            raise ValueError("no batch today")
        return seconds

    with tf.Graph().as_default() as graph:
        table = Table(NUM_KEYS, 4, "uniform", use_hash_index=False)
        keys, seconds = (tf.compat.v1.placeholder(dtype) for dtype in (tf.int64, tf.float64))
        (rows,) = lookup_group([Lookup(table, tf.reshape(keys, [-1]))], insert=True)
        begins = [op for op in graph.get_operations() if op.type == "SokBeginCollective"]
        with tf.control_dependencies(begins):  # a step that fails before is none of the lookup
            beside = tf.compat.v1.py_func(fail_later, [seconds], tf.float64)
        init, seen = tf.compat.v1.global_variables_initializer(), []
    session = tf.compat.v1.Session(graph=graph, config=session_config())
    session.run(init)
    wait_for_all_ranks()
    values = session.run(rows, {keys: np.arange(NUM_KEYS)})
    for step in range(4 * NUM_STEPS):
        batch = random.integers(0, NUM_KEYS, 2000)
        fails = RANK == SIZE - 1 and step % 2 == 1
        wait = random.uniform(0, 0.004)
        feeds = {keys: batch, seconds: wait if fails else -1.0}
        time.sleep(0 if fails else wait)
        try:
            seen.append(np.array_equal(session.run([rows, beside], feeds)[0], values[batch]))
        except tf.errors.OpError as error:
            seen.append(error.message)
    wait_for_all_ranks("done")  # a rank that has left is named for that
    return seen


def run(session, fetches, seed):
    """The values of all rows that came, in steps with pauses of this rank's own."""
    rng = np.random.default_rng([RANK, seed])
    values = set()
    for _ in range(NUM_STEPS):
        time.sleep(rng.uniform(0, 0.02))
        values.update(np.unique(session.run(fetches)[0]).tolist())
    return sorted(values)


def in_threads(calls):
    """[result of each call]; all run at the same time."""
    results = [None] * len(calls)

    def keep(i):
        results[i] = calls[i]()

    threads = [threading.Thread(target=keep, args=[i]) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def in_any_order():
    models = [build(1.0), build(2.0)]
    sessions = []
    for graph, init, *_ in models:
        sessions.append(tf.compat.v1.Session(graph=graph, config=session_config()))
        sessions[-1].run(init)
    calls = [
        lambda s=s, m=m, i=i: run(s, m[2], i) for i, (s, m) in enumerate(zip(sessions, models))
    ]
    fetches = [lambda i=i: run(sessions[0], models[0][2 + i], i) for i in range(2)]
    of_one_graph, outputs, _ = sessions_of_one_graph()
    of_graph = [lambda s=s, i=i: run(s, outputs, i) for i, s in enumerate(of_one_graph)]
    return {
        "two graphs": in_threads(calls),
        "two fetches": in_threads(fetches),
        "one graph": in_threads(of_graph),
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["again"]:
        report(initialize_again())
    elif sys.argv[1:2] == ["failed"]:
        report(initialize_after_failed_lookup())
    elif sys.argv[1:2] == ["beside"]:
        report(fail_beside_lookups())
    else:
        report(skip(int(sys.argv[1])) if len(sys.argv) > 1 else in_any_order())
