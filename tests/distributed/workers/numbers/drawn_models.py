# SPDX-License-Identifier: Apache-2.0
"""Trains drawn models on this rank's part of the batches: of DeepRec's API, and of layers.

Arguments: the seeds of the models.
"""

import sys

import numpy as np

import sok_compat.deeprec as tf
from tests.distributed.workers.numbers import drawn_layers
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config
from tests.support.cases.drawn_models import (
    BATCH,
    EVICTION_AFTER,
    GROUPED,
    KEYS,
    drawn_model,
    pooled,
)

tf.config.experimental.enable_distributed_strategy("collective")

RATES = {
    "AdamAsyncOptimizer": (0.05,),
    "AdamOptimizer": (0.05,),
    "AdamWOptimizer": (0.02, 0.05),
    "MomentumOptimizer": (0.1, 0.9),
}
INITIALIZERS = {
    None: None,
    "uniform": tf.random_uniform_initializer(-0.5, 0.5),
    "normal": tf.random_normal_initializer(0.1, 0.6),
    "constant": tf.constant_initializer(0.7),
    "given": lambda shape, dtype=None, **_: 0.3 * tf.ones(shape, tf.float32),
}


def make_variable(number, drawn):
    key_filter, eviction = (
        getattr(tf, one[0])(*one[1:]) if one else None for one in (drawn.key_filter, drawn.eviction)
    )
    partitioner = tf.fixed_size_partitioner(drawn.num_parts) if drawn.num_parts else None
    return tf.get_embedding_variable(
        f"e{number}",
        drawn.dim,
        initializer=INITIALIZERS[drawn.initializer],
        partitioner=partitioner,
        ev_option=tf.EmbeddingVariableOption(
            filter_option=key_filter,
            evict_option=eviction,
            init_option=tf.InitializerOption(
                default_value_dim=drawn.default_value_dim, default_value_no_permission=0.25
            ),
        ),
    )


class Input:
    """What the bags of one lookup are fed to."""

    def __init__(self, lookup):
        self._lookup = lookup
        self._ids = tf.placeholder(lookup.id_dtype, [None])
        self._lengths = tf.placeholder(tf.int64, [None])
        self._weights = tf.placeholder(tf.float32, [None])
        self.ids = self._in_form(self._ids)
        self.weights = self._in_form(self._weights) if lookup.weights else None

    def _in_form(self, values):
        if not self._lookup.has_bags:
            return tf.reshape(values, [-1, 2])
        bags = tf.RaggedTensor.from_row_lengths(values, self._lengths)
        is_ragged = self._lookup.is_ragged and self._lookup.kind in GROUPED
        return bags if is_ragged else bags.to_sparse()

    def feeds(self, bags):
        return {
            self._ids: np.array([x for bag in bags.ids for x in bag], self._lookup.id_dtype),
            self._lengths: np.array([len(bag) for bag in bags.ids], np.int64),
            self._weights: np.array([x for bag in bags.weights for x in bag], np.float32),
        }


def look_up(lookups, params, inputs):
    """[B, columns] of each lookup."""
    outputs = {}
    for kind in GROUPED:
        places = [i for i, lookup in enumerate(lookups) if lookup.kind == kind]
        if not places:
            continue
        ids, of_group = [inputs[i].ids for i in places], [params[i] for i in places]
        if kind == "dense group":
            found = tf.nn.group_embedding_lookup(of_group, ids)
        else:
            found = tf.nn.group_embedding_lookup_sparse(
                of_group,
                ids,
                [lookups[i].combiner for i in places],
                sp_weights=[inputs[i].weights for i in places],
                is_sequence=kind == "sequence",
            )
        outputs.update(zip(places, found))
    for i, lookup in enumerate(lookups):
        if lookup.kind not in GROUPED:
            outputs[i] = look_up_one(lookup, params[i], inputs[i])
        if lookup.kind == "sequence":  # of a length that is a rank's own
            outputs[i] = tf.reduce_sum(outputs[i], 1)
        if not lookup.has_bags:
            outputs[i] = tf.reshape(outputs[i], [-1, 2 * outputs[i].shape[-1]])
    return [outputs[i] for i in range(len(lookups))]


def look_up_one(lookup, param, fed):
    if lookup.kind == "lookup":
        return tf.nn.embedding_lookup(param, fed.ids)
    kinds = {
        "sparse lookup": tf.nn.embedding_lookup_sparse,
        "safe lookup": tf.nn.safe_embedding_lookup_sparse,
    }
    return kinds[lookup.kind](param, fed.ids, fed.weights, combiner=lookup.combiner)


class Model:
    """The graph of a DrawnModel."""

    def __init__(self, drawn):
        rng = np.random.default_rng([drawn.seed, 2])
        self.lookups = drawn.lookups
        step = tf.train.get_or_create_global_step()
        variables = [make_variable(i, one) for i, one in enumerate(drawn.variables)]
        ordinary = tf.get_variable(
            "ordinary", initializer=rng.normal(size=[13, 3]).astype(np.float32), use_resource=True
        )
        self.inputs = [Input(lookup) for lookup in drawn.lookups]
        self.labels = tf.placeholder(tf.float32, [None])
        params = [ordinary if x.variable < 0 else variables[x.variable] for x in drawn.lookups]
        self.outputs = look_up(drawn.lookups, params, self.inputs)
        features = tf.concat(self.outputs, 1)
        first = rng.normal(size=[features.shape[1], 1]).astype(np.float32)
        self.dense = [tf.get_variable("dense", initializer=first, use_resource=True), ordinary]
        logits = tf.squeeze(features @ self.dense[0], 1)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=self.labels, logits=logits)
        self.loss = tf.reduce_mean(losses)
        rates = RATES.get(drawn.optimizer, (0.1,))
        if drawn.optimizer.startswith("AdagradDecay"):
            rates = (0.1, step)
        self.train = getattr(tf.train, drawn.optimizer)(*rates).minimize(self.loss, step)
        self.tables = [part for one in variables for part in parts_of(one)]
        self.evict = [op for table in self.tables if (op := table.before_save()) is not None]
        self.contents = [(table.export(), self._waiting(table)) for table in self.tables]
        # Looked up one by one: what NumPy pools.
        self.rows = [tf.nn.embedding_lookup(param, KEYS) for param in variables]
        self.ordinary = ordinary

    @staticmethod
    def _waiting(table):
        return table.waiting_keys() if table.history is not None else ()

    def feeds(self, bags, labels):
        begin, end = (BATCH * rank // SIZE for rank in (RANK, RANK + 1))
        fed = {self.labels: labels[begin:end]}
        for one, given in zip(self.inputs, bags):
            fed.update(one.feeds(given.part(begin, end)))
        return fed

    def expected(self, session, bags):
        """NumPy's first outputs."""
        rows = [dict(zip(KEYS.tolist(), found)) for found in session.run(self.rows)]
        rows.append(dict(enumerate(session.run(self.ordinary))))
        found = []
        for one, lookup in zip(bags, self.lookups):
            if lookup.kind == "sequence":  # summed up here
                lookup = type(lookup)(**{**vars(lookup), "combiner": "sum"})
            found.append(pooled(one, rows[lookup.variable], lookup))
        return found


def parts_of(variable):
    return [variable] if hasattr(variable, "history") else list(variable)


def train(seed):
    """What this rank sees of a model."""
    drawn = drawn_model(seed)
    with tf.Graph().as_default():
        tf.set_random_seed(seed)
        model = Model(drawn)
        init = tf.global_variables_initializer()
        with tf.Session(config=session_config(rewrites=False)) as session:
            session.run(init)
            seen = {"losses": [], "description": str(drawn)}
            for number, batch in enumerate(drawn.batches()):
                if number == 0:
                    seen["expected"] = model.expected(session, batch[0])
                if number == EVICTION_AFTER:
                    session.run(model.evict)
                fetches = [model.loss, model.outputs, model.train]
                loss, outputs, _ = session.run(fetches, model.feeds(*batch))
                seen["losses"].append(loss)
                seen.setdefault("outputs", outputs)
            seen["dense"] = session.run(model.dense)
            seen["contents"] = session.run(model.contents)
            return seen


if __name__ == "__main__":
    trainers = {"deeprec": train, "layers": drawn_layers.train}
    report({
        (face, seed): trainers[face](seed) for face in trainers for seed in map(int, sys.argv[1:])
    })  # fmt: skip
