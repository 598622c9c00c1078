# SPDX-License-Identifier: Apache-2.0
"""Scripts as users write them: with Horovod's broadcasts, its optimizer wrapper, and by hand.

One process runs the same scripts without Horovod, on the global batch.
"""

import collections

import numpy as np
import tensorflow as tf

import sok_compat as sok
from sok_compat.deeprec.lookups.stock_lookups import embedding_lookup
from sok_compat.deeprec.optimizer_rules import train_optimizers
from sok_compat.deeprec.variables.options import CounterFilter, EmbeddingVariableOption
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from sok_compat.runtime import integrations
from tests.distributed.workers.global_batch import GLOBAL_BATCH, division
from tests.distributed.workers.ranks import RANK, SIZE, hvd, report, session_config

tf1 = tf.compat.v1
NUM_STEPS = 4
early_broadcast = hvd and hvd.broadcast_variables  # as scripts that import it by name
STOCK = {
    "sgd": lambda: tf1.train.GradientDescentOptimizer(0.1),
    "adagrad": lambda: tf1.train.AdagradOptimizer(0.05),
    "adam": lambda: tf1.train.AdamOptimizer(0.01),
    "lazy adam": lambda: sok.tf.keras.optimizers.LazyAdamOptimizer(0.01),
}
BROADCASTS = {
    "global variables": lambda: hvd.broadcast_global_variables(0),
    "variables": lambda: early_broadcast(tf1.global_variables(), 0),
    "in place": lambda: hvd.broadcast_variables(tf1.global_variables(), 0, inplace=True),
}


class Model:
    """Two layers and a dense one; the loss is the mean, or its part of the sum, over the batch."""

    def __init__(self, mean_over_local_batch=True):
        self.status = sok.Init(global_batch_size=GLOBAL_BATCH, seed=9)
        self.keys = tf1.placeholder(tf.int64, [None, 2, 2])
        layers = [sok.All2AllDenseEmbedding(100, dim, 2, 2) for dim in (3, 4)]
        features = tf.concat(
            [tf.reshape(y(self.keys), [-1, 4 * y.embedding_vec_size]) for y in layers], 1
        )
        # Different on each rank, until it is broadcast.
        first = np.random.default_rng(0).normal(size=[28, 1]).astype(np.float32) + RANK
        self.dense = [tf1.Variable(first, name="dense"), tf1.Variable([0.5 * RANK], name="bias")]
        errors = (tf.matmul(features, self.dense[0]) + self.dense[1] - 1.0) ** 2
        divisor = (
            tf.cast(tf.shape(errors)[0], tf.float32) if mean_over_local_batch else GLOBAL_BATCH
        )
        self.loss = tf.reduce_sum(errors) / divisor
        self.tables = [layer.embedding_variable for layer in layers]
        self.exported = [table.export() for table in self.tables]

    def feeds(self, step):
        keys = np.random.default_rng(step).integers(-30, 30, [GLOBAL_BATCH, 2, 2])
        begins = division("equal", SIZE)
        return {self.keys: keys[begins[RANK] : begins[RANK + 1]]}

    def values(self, session):
        """(dense values, [tables] of {key: row})."""
        rows = [dict(zip(k.tolist(), r)) for k, r in session.run(self.exported)]
        return session.run(self.dense), rows


def wrapped(optimizer, **kwargs):
    return hvd.DistributedOptimizer(optimizer, **kwargs) if hvd else optimizer


def train(model, step, hooks=False, broadcast="global variables"):
    """The values after the steps."""
    config = session_config(rewrites=False)
    if hooks:
        hooks = [hvd.BroadcastGlobalVariablesHook(0)] if hvd else []
        scaffold = tf1.train.Scaffold(saver=tf1.train.Saver(model.dense))  # it saves no tables
        with tf1.train.MonitoredTrainingSession(
            hooks=hooks, config=config, scaffold=scaffold
        ) as session:
            for number in range(NUM_STEPS):
                session.run(step, model.feeds(number))
            return session.run_step_fn(lambda step_context: model.values(step_context.session))
    synchronize = BROADCASTS[broadcast]() if hvd else tf.no_op()
    init = tf1.global_variables_initializer()
    with tf1.Session(config=config) as session:
        session.run(model.status)
        session.run(init)
        session.run(synchronize)
        for number in range(NUM_STEPS):
            session.run(step, model.feeds(number))
        return model.values(session)


def minimize(name, hooks=False, optimizer=None, **kwargs):
    """hvd.DistributedOptimizer(...).minimize; with op=hvd.Sum, a loss over the global batch."""
    model = Model(mean_over_local_batch=not kwargs)
    options = {"op": getattr(hvd, "Sum", None)} if kwargs else {}
    optimizer = optimizer or wrapped(STOCK[name](), **options)
    with sok.OptimizerScope(model.tables):
        step = optimizer.minimize(model.loss)
    return train(model, step, hooks)


def by_hand():
    """As SparseOperationKit's examples: tables apart, hvd.allreduce of dense gradients."""
    model = Model(mean_over_local_batch=False)
    gradients = tf.gradients(model.loss, [*model.tables, *model.dense])
    dense_gradients = gradients[2:]
    if hvd:
        with tf.control_dependencies(gradients[:2]):
            dense_gradients = [hvd.allreduce(g, op=hvd.Sum) for g in dense_gradients]
    tables = sok.optimizers.Adam(0.01).apply_gradients(zip(gradients[:2], model.tables))
    dense = STOCK["sgd"]().apply_gradients(zip(dense_gradients, model.dense))
    return train(model, [tables, dense], broadcast="variables")


def error_of_gradients(optimizer):
    """Of an hvd.DistributedOptimizer from before there were tables."""
    model = Model()
    try:
        optimizer.compute_gradients(model.loss)
    except RuntimeError as error:
        return str(error)
    return None


def after_training(broadcast):
    """Broadcasts in the middle of training change no row and no slot."""
    model = Model(mean_over_local_batch=False)
    with sok.OptimizerScope(model.tables):
        optimizer = STOCK["adam"]()
        gradients = optimizer.compute_gradients(model.loss, model.tables)
        step = optimizer.apply_gradients(gradients)
    slots = [optimizer.get_slot(table, name) for table in model.tables for name in ("m", "v")]
    synchronize = BROADCASTS[broadcast]()
    init = tf1.global_variables_initializer()
    with tf1.Session(config=session_config(rewrites=False)) as session:
        session.run(model.status)
        session.run(init)
        session.run(step, model.feeds(0))
        before, slots_before = model.values(session), session.run(slots)
        session.run(synchronize)
        after, slots_after = model.values(session), session.run(slots)
    for mine, same in zip(slots_before, slots_after):
        np.testing.assert_array_equal(mine, same)
        assert np.any(mine)
    for mine, same in zip(before[1], after[1]):
        assert mine.keys() == same.keys()
        assert all(np.array_equal(mine[key], same[key]) for key in mine)
    return after


def add_up(with_dense, **options):
    """A table without a capacity: a step adds up two halves of a rank's part of the batch."""
    table = get_embedding_variable("table", 2, initializer=tf1.ones_initializer(), **options)
    keys = tf1.placeholder(tf.int64, [None])
    dense = [tf1.Variable([[1.0], [2.0]], use_resource=True)] if with_dense else []
    rows = embedding_lookup(table, keys)
    outputs = rows @ dense[0] if with_dense else tf.reduce_sum(rows, axis=1, keepdims=True)
    loss = tf.reduce_mean((outputs - tf.cast(keys, tf.float32)[:, tf.newaxis]) ** 2)
    halves = dict(backward_passes_per_step=2, sparse_as_dense=True)
    optimizer = wrapped(
        train_optimizers.AdagradOptimizer(0.1), **halves, average_aggregated_gradients=True
    )
    step = optimizer.minimize(loss)
    with tf1.Session(config=session_config(rewrites=False)) as session:
        session.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
        for number in range(NUM_STEPS):
            batch = np.random.default_rng(number).integers(0, 6, [SIZE, 2, 8 // SIZE])
            for part in batch[RANK] if hvd else batch.reshape([1, 16]):
                session.run(step, {keys: part})
        exported = session.run(table.export()[:2])
        return session.run(dense), [dict(zip(exported[0].tolist(), exported[1]))]


def add_up_filtered():
    """As add_up of a table that a key enters when it has come three times; of one process a dict,
    of what the passes of two ranks look up."""
    if hvd:
        return add_up(False, ev_option=EmbeddingVariableOption(filter_option=CounterFilter(3)))
    counts, rows, squares = collections.Counter(), {}, {}
    for number in range(NUM_STEPS):
        gradients = collections.Counter()
        for keys in np.random.default_rng(number).integers(0, 6, [2, 2, 4]).swapaxes(0, 1):
            read = {key: rows.get(key, 0.0) for key in keys.ravel()}
            counts.update(keys.ravel())
            rows.update({key: rows.get(key, 1.0) for key in read if counts[key] >= 3})
            for key in keys.ravel():  # the mean of a pass, and over two of them
                gradients[key] += 2 * (2 * read[key] - key) / keys.size / 2 if key in rows else 0
        for key in gradients.keys() & rows.keys():
            squares[key] = squares.get(key, 0.1) + gradients[key] ** 2
            rows[key] -= 0.1 * gradients[key] / np.sqrt(squares[key])
    return [], [{int(key): [row, row] for key, row in rows.items()}]


def error_of_passes():
    """What adding up over passes says of a table whose rows may go to other keys meanwhile."""
    try:
        add_up(with_dense=False, steps_to_live=5)
    except NotImplementedError as error:
        return str(error)
    return None


SCRIPTS = {
    **{f"minimize with {name}": (minimize, name) for name in STOCK},
    "op=Sum with adagrad": (lambda: minimize("adagrad", op="Sum"),),
    "op=Sum with lazy adam": (lambda: minimize("lazy adam", op="Sum"),),
    "wrapped before there were tables": (lambda: minimize("sgd", optimizer=early),),
    "wrapped in groups before there were tables": (
        lambda: minimize("sgd", optimizer=early_in_groups),
    ),
    "by hand": (by_hand,),
}
if hvd is None or hasattr(hvd, "BroadcastGlobalVariablesHook"):  # needs tf.estimator
    SCRIPTS["hooks"] = (minimize, "adagrad", True)

if __name__ == "__main__":
    seen = {}
    early = wrapped(STOCK["sgd"](), **({"sparse_as_dense": True} if hvd else {}))
    adding_up = {"sparse_as_dense": True, "backward_passes_per_step": 2} if hvd else {}
    early_adding_up = wrapped(STOCK["sgd"](), **adding_up)
    early_in_groups = wrapped(STOCK["sgd"](), **({"groups": 2} if hvd else {}))
    for title, (script, *arguments) in SCRIPTS.items():
        with tf.Graph().as_default():
            seen[title] = script(*arguments)
    with tf.Graph().as_default():
        seen["adds up"] = error_of_gradients(early_adding_up)
    for broadcast in BROADCASTS if hvd else ():
        with tf.Graph().as_default():
            seen[f"broadcast {broadcast}"] = after_training(broadcast)
    seen["changes"] = len(integrations.applied())
    for title, with_dense in {
        "passes of a table and others": True,
        "passes of a table": False,
    }.items():
        with tf.Graph().as_default():
            seen[title] = add_up(with_dense)
    with tf.Graph().as_default():
        seen["passes of a filtered table"] = add_up_filtered()
    with tf.Graph().as_default():
        seen["evicts"] = error_of_passes()
    report(seen)
