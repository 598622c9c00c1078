# SPDX-License-Identifier: Apache-2.0
"""Trains all kinds of layers, with all optimizers, on this rank's part of the global batches.

Argument: how many models, at most as many as there are optimizers.
"""

import sys

import numpy as np
import tensorflow as tf

import sok_compat as sok
from tests.distributed.workers.global_batch import GLOBAL_BATCH, division, part, without_keys
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config
from tests.support.cases.layer_cases import ALL_CASES, LayerCase
from tests.support.cases.optimizer_cases import COMMON_OPTIMIZERS

STEPS = [  # (how the batch is divided, which keys)
    ("equal", "any"),
    ("uneven", "any"),
    ("none for the first", "any"),
    ("equal", "of one rank"),
    ("all for the last", "any"),
    ("equal", "none in bags"),
]
CAPACITY = 64
OF_ONE_RANK = [12, 24, 36]  # rank 0 owns them
UNKNOWN = [49, 50, 51, 52, 59, 61]

OPTIMIZERS = [
    optimizer
    for optimizer in COMMON_OPTIMIZERS
    if str(optimizer)
    in (
        "sok.optimizers.Adam",
        "sok.tf.keras.Adam",
        "LazyAdam",
        "tf1.GradientDescent",
        "tf1.Adagrad",
        "tf1.Adam",
        "legacy.Adam",
    )
]


class EvaluatedHalf(tf.keras.initializers.Initializer):
    """Evaluated when keys come, and the same for all of them."""

    def __call__(self, shape, dtype=None, **kwargs):
        return tf.fill(shape, tf.constant(0.5, dtype or tf.float32))


LAYERS = [(case, None) for case in ALL_CASES] + [
    (LayerCase("mean", True, "int64", 6), "glorot_normal"),
    (LayerCase("dynamic", True, "int64", 2), EvaluatedHalf()),
    (LayerCase("sum", False, "int64", 2), EvaluatedHalf()),
    # Owners are asked for sums of rows where a bag has many keys, for rows in some of the STEPS.
    (LayerCase("mean", True, "int64", 16, max_nnz=24), None),
    (LayerCase("sum", False, "uint32", 16, max_nnz=24), None),
    (LayerCase("sum", True, "uint32", 16, max_nnz=24), EvaluatedHalf()),
]


def make_batches():
    """[steps][layers] of global batches."""
    rng = np.random.default_rng(3)
    keys = [case.keys(rng) for case, _ in LAYERS]
    batches = []
    for _, which in STEPS:
        batches.append([])
        for (case, _), some_keys in zip(LAYERS, keys):
            pool = OF_ONE_RANK if which == "of one rank" else some_keys
            batch = case.batch(rng, GLOBAL_BATCH, pool)
            is_empty = which == "none in bags" and case.is_sparse
            batches[-1].append(without_keys(batch) if is_empty else batch)
    return batches


class Model:
    """All layers and one loss, in the default graph."""

    def __init__(self, number):
        self.status = sok.Init(global_batch_size=GLOBAL_BATCH, seed=11)
        layers = [case.make_layer(CAPACITY, embedding_initializer=i) for case, i in LAYERS]
        self.tables = [layer.embedding_variable for layer in layers]
        self.inputs = [case.placeholder() for case, _ in LAYERS]
        features = [
            tf.reshape(layer(x), [-1, case.features_per_sample])
            for (case, _), layer, x in zip(LAYERS, layers, self.inputs)
        ]
        self.outputs = tf.concat(features, axis=1)
        weights = np.random.default_rng(4).exponential(size=[1, self.outputs.shape[1]])
        terms = (1 + tf.sin(self.outputs)) * weights.astype(np.float32)  # > 0: none cancel out
        self.losses = tf.reduce_sum(terms, axis=1)
        loss = tf.reduce_sum(self.losses) / GLOBAL_BATCH
        self.gradients = tf.gradients(loss, self.tables)
        self.train = [
            optimizer.train_tables(self.gradients[first :: len(OPTIMIZERS)], tables)
            for first, optimizer in enumerate(OPTIMIZERS[number:] + OPTIMIZERS[:number])
            if (tables := self.tables[first :: len(OPTIMIZERS)])
        ]
        self.unknown = [case.rows_of(layer, UNKNOWN) for (case, _), layer in zip(LAYERS, layers)]
        reads = [layer(x, training=False) for layer, x in zip(layers, self.inputs)]
        self.read_gradients = tf.gradients(reads, self.tables)
        self.num_keys = [table.num_keys() for table in self.tables]
        self.exported = [table.export() for table in self.tables]

    def feeds(self, kind, batches):
        begins = division(kind, SIZE)
        begin, end = begins[RANK], begins[RANK + 1]
        return {
            x: part(case, batch, begin, end)
            for (case, _), x, batch in zip(LAYERS, self.inputs, batches)
        }


def rows_by_key(exported):
    """[tables] of {key: row}; of direct tables, the keys that one process has room for."""
    return [
        {k: row for k, row in zip(keys.tolist(), rows) if case.use_hashtable or k < CAPACITY}
        for (case, _), (keys, rows) in zip(LAYERS, exported)
    ]


def gradients_by_key(exported, gradients):
    """[tables] of {key: gradient}: the slices of each, named by the key of the row."""
    named = []
    for (case, _), (keys, _), slices in zip(LAYERS, exported, gradients):
        assert len(set(slices.indices.tolist())) == len(slices.indices)
        by_range = slices.indices * SIZE + RANK
        names = keys[slices.indices] if case.use_hashtable else by_range
        named.append(dict(zip(names.tolist(), slices.values)))
    return named


def train(number, batches):
    """What this rank saw with one model."""
    with tf.Graph().as_default() as graph:
        model = Model(number)
        init = tf.compat.v1.global_variables_initializer()
        graph.finalize()
        seen = {"outputs": [], "losses": []}
        with tf.compat.v1.Session(config=session_config(rewrites=False)) as session:
            session.run(model.status)
            session.run(init)
            for (kind, _), step_batches in zip(STEPS, batches):
                outputs, losses, slices, _ = session.run(
                    [model.outputs, model.losses, model.gradients, model.train],
                    model.feeds(kind, step_batches),
                )
                seen["outputs"].append(outputs)
                seen["losses"].append(losses)
                if "gradients" not in seen:
                    seen["gradients"] = gradients_by_key(session.run(model.exported), slices)
            before = session.run(model.num_keys)
            feeds = model.feeds("equal", batches[0])
            slices = session.run(model.read_gradients, feeds)
            seen["read_gradients"] = gradients_by_key(session.run(model.exported), slices)
            seen["unknown"] = session.run(model.unknown)
            assert session.run(model.num_keys) == before
            seen["rows"] = rows_by_key(session.run(model.exported))
    return seen


if __name__ == "__main__":
    all_batches = make_batches()
    # In each model, a table has another optimizer.
    report([train(number, all_batches) for number in range(int(sys.argv[1]))])
