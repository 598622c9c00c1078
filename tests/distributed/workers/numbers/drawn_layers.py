# SPDX-License-Identifier: Apache-2.0
"""Models of SparseOperationKit's layers that are drawn from a seed, on this rank's samples."""

import dataclasses

import numpy as np
import tensorflow as tf

import sok_compat as sok
from tests.distributed.workers.global_batch import DIVISIONS, GLOBAL_BATCH, division, part
from tests.distributed.workers.ranks import RANK, SIZE, session_config
from tests.support.cases.layer_cases import ALL_CASES, NUM_KEYS
from tests.support.cases.optimizer_cases import COMMON_OPTIMIZERS

STEPS = 5
INITIALIZERS = (None, "glorot_normal", "uniform", "ones")


class Model:
    """Layers, some of them called twice, and one optimizer."""

    def __init__(self, rng):
        self._status = sok.Init(global_batch_size=GLOBAL_BATCH, seed=11)
        self.cases = [
            dataclasses.replace(
                ALL_CASES[rng.integers(len(ALL_CASES))],
                dim=int(rng.integers(1, 17)),
                max_nnz=int(rng.integers(1, 12)),
            )
            for _ in range(rng.integers(1, 4))
        ]
        initializers = [INITIALIZERS[rng.integers(len(INITIALIZERS))] for _ in self.cases]
        layers = [
            case.make_layer(NUM_KEYS, embedding_initializer=initializer)
            for case, initializer in zip(self.cases, initializers)
        ]
        self.calls = [*range(len(layers)), *rng.integers(0, len(layers), rng.integers(3))]
        self._keys = [case.keys(rng) for case in self.cases]
        self._inputs = [self.cases[i].placeholder() for i in self.calls]
        self.outputs = [
            tf.reshape(layers[i](fed), [-1, self.cases[i].features_per_sample])
            for i, fed in zip(self.calls, self._inputs)
        ]
        outputs = tf.concat(self.outputs, axis=1)
        weights = rng.normal(size=[1, outputs.shape[1]]).astype(np.float32)
        # What a rank adds to the mean over all samples, times their number.
        self.loss = tf.reduce_sum((1 + tf.sin(outputs)) * weights) * SIZE / GLOBAL_BATCH
        tables = [layer.embedding_variable for layer in layers]
        optimizer = COMMON_OPTIMIZERS[rng.integers(len(COMMON_OPTIMIZERS))]
        gradients = tf.gradients(self.loss / SIZE, tables)
        self.train = optimizer.train_tables(gradients, tables)
        self.exported = [table.export() for table in tables]
        self.description = f"{self.cases} {initializers} {self.calls} {optimizer}"

    def feeds(self, rng):
        """Of the next step."""
        begin, end = division(DIVISIONS[rng.integers(len(DIVISIONS))], SIZE)[RANK:][:2]
        batches = [self.cases[i].batch(rng, GLOBAL_BATCH, self._keys[i]) for i in self.calls]
        return {
            fed: part(self.cases[i], batch, begin, end)
            for i, fed, batch in zip(self.calls, self._inputs, batches)
        }

    def contents(self, session):
        """(keys, rows) of each table; of one without a hash index, those that one process has."""
        found = []
        for case, (keys, rows) in zip(self.cases, session.run(self.exported)):
            is_there = np.full(len(keys), True) if case.use_hashtable else keys < NUM_KEYS
            found.append(((keys[is_there], rows[is_there]), ()))
        return found


def train(seed):
    """What this rank sees of a model."""
    rng = np.random.default_rng([seed, 0])
    with tf.Graph().as_default():
        model = Model(rng)
        init = tf.compat.v1.global_variables_initializer()
        seen = {"losses": [], "dense": [], "description": model.description}
        with tf.compat.v1.Session(config=session_config(rewrites=False)) as session:
            session.run(init)
            for _ in range(STEPS):
                fetches = [model.loss, model.outputs, model.train]
                loss, outputs, _ = session.run(fetches, model.feeds(rng))
                seen["losses"].append(loss)
                seen.setdefault("outputs", outputs)
            seen["contents"] = model.contents(session)
        return seen
