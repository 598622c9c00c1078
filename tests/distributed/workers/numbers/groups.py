# SPDX-License-Identifier: Apache-2.0
"""A group of lookups of many kinds, trained on each rank's part of global batches; and how many ops
and exchanges groups of other sizes take."""

import numpy as np
import tensorflow as tf

import sok_compat as sok
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.tables import Table
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config
from tests.support.cases.group_cases import CASES, FedLookups, random_batch, squared_loss
from tests.support.ops_of_steps import ops_of_step

tf1 = tf.compat.v1
NUM_BAGS, STEPS = 12, 10
GROUPS = {
    "1 table": (1, 1),
    "8 tables": (8, 1),
    "26 tables": (26, 1),
    "26 tables of 5 dims": (26, 5),
    "8 layers": (8, 1, True),
}


def train():
    """The outputs and losses of each step: of tables, and, of one process, of plain variables."""
    with tf.Graph().as_default():
        sok.Init(global_batch_size=NUM_BAGS, seed=3)
        tables = [case.make_table(f"table_{i}") for i, case in enumerate(CASES)]
        fed = FedLookups(CASES, tables)
        outputs = lookup_group(fed.lookups, True)
        sides, copies = [(outputs, tables)], []
        if SIZE == 1:
            first_rows = lookup_group([c.all_keys(t) for c, t in zip(CASES, tables)], True)
            plain = [tf1.get_variable(f"plain_{i}", [40, c.dim]) for i, c in enumerate(CASES)]
            copies = [variable.assign(rows) for variable, rows in zip(plain, first_rows)]
            sides.append((fed.reference(plain), plain))
        optimizer = tf1.train.GradientDescentOptimizer(0.02)
        fetches = []
        for values, variables in sides:
            loss = squared_loss(values)
            gradients = tf.gradients(loss, variables)
            with sok.OptimizerScope(variables):
                trained = optimizer.apply_gradients(zip(gradients, variables))
            fetches.append(([values, loss], trained))
        with tf1.Session(config=session_config()) as session:
            session.run(tf1.global_variables_initializer())
            session.run(copies)
            rng = np.random.default_rng(2)
            steps = []
            for _ in range(STEPS):
                whole = [random_batch(rng, NUM_BAGS) for _ in CASES]
                begin, end = NUM_BAGS * RANK // SIZE, NUM_BAGS * (RANK + 1) // SIZE
                mine = fed.feeds([batch.part(begin, end) for batch in whole])
                feeds = [mine, fed.feeds(whole)]
                seen = [session.run(*each)[0] for each in zip(fetches, feeds)]
                steps.append(dict(zip(("ours", "plain"), seen)))
    return steps


def make_table(name, dim, is_of_layer):
    if is_of_layer:
        return sok.All2AllDenseEmbedding(100, dim, 1, 1, name=name).embedding_variable
    return Table(100, dim, name=name)


def count(num_tables, num_dims, are_of_layers=False):
    """(ops of lookups that a step ran, with those of gradients; exchanges of a step)."""
    with tf.Graph().as_default() as graph:
        sok.Init(global_batch_size=8, seed=3)
        tables = [make_table(f"t{i}", 2 + i % num_dims, are_of_layers) for i in range(num_tables)]
        keys = tf1.placeholder(tf.int64, [None])
        weights = tf1.placeholder(tf.float32, [None])
        splits = tf1.placeholder(tf.int64, [None])
        ys = [tf1.placeholder(tf.float32, [None, table.dim]) for table in tables]
        before = set(graph.get_operations())
        lookups = [Lookup(table, keys, splits, "mean", weights) for table in tables]
        gradients = tf.gradients(lookup_group(lookups, True), tables, grad_ys=ys)
        made = [op for op in graph.get_operations() if op not in before]
        feeds = {keys: [1, 2, 1, 5], weights: [1, 2, 3, 4], splits: [0, 3, 4]}
        feeds.update({y: np.ones([2, table.dim]) for y, table in zip(ys, tables)})
        with tf1.Session(config=session_config()) as session:
            session.run(tf1.global_variables_initializer())
            for _ in range(3):
                earlier = sok.communication_stats().exchanges if SIZE > 1 else 0
                ran = ops_of_step(session, gradients, feeds, made)
                later = sok.communication_stats().exchanges if SIZE > 1 else 0
    return len(ran), later - earlier


if __name__ == "__main__":
    counts = {name: count(*size) for name, size in GROUPS.items()}
    report({"steps": train(), "counts": counts})
