# SPDX-License-Identifier: Apache-2.0
"""DistributedEmbedding saved and restored under other plans and numbers of ranks, in each of the
ways that a script has; and batches of ranks that do not fit together."""

from pathlib import Path

import numpy as np
import tensorflow as tf

from sok_compat.distributed_embeddings.python.layers import dist_model_parallel as dmp
from sok_compat.distributed_embeddings.python.layers.embedding import Embedding
from sok_compat.runtime.tf_versions import keras
from tests.distributed.workers.ranks import RANK, SIZE, hvd, session_config

tf1 = tf.compat.v1
legacy = keras.optimizers.legacy
BATCH = 12
PART = slice(BATCH * RANK // SIZE, BATCH * (RANK + 1) // SIZE)
SIZES = [(30, 4), (7, 6), (50, 4)]
FIRST = dict(strategy="memory_balanced", column_slice_threshold=20, row_slice_threshold=200)
SECOND = dict(strategy="memory_optimized", data_parallel_threshold=45)  # the second one is copied
THIRD = dict(row_slice_threshold=100, data_parallel_threshold=50)
_NUMBERS = np.random.default_rng(8)
BATCHES = [[_NUMBERS.integers(0, rows, [BATCH, 1]) for rows, _ in SIZES] for _ in range(3)]
GIVEN = [_NUMBERS.normal(size=size) for size in SIZES]


def layer_of(options):
    return dmp.DistributedEmbedding([Embedding(*size, combiner="sum") for size in SIZES], **options)


def checkpoints(folder):
    """By tf.train.Checkpoint. Weights of all tables, and a dense one: "on": after a step behind a
    checkpoint; "again": after that step from the checkpoint under another plan; "of 1": in the
    checkpoint of one rank; "of 1 on": after that step from there."""

    def objects(options, name="Adam"):
        keras.backend.clear_session()
        layer = layer_of(options)
        layer([tf.constant(one[PART]) for one in BATCHES[0]])
        optimizer = keras.optimizers.Adam(0.1, amsgrad=True, name=name)
        return layer, tf.Variable([[1.0]]), optimizer

    def step(layer, dense, optimizer, batch):
        tape = tf.GradientTape()
        with tape:
            rows = layer([tf.constant(one[PART]) for one in batch])
            loss = sum(tf.reduce_mean(each * each) for each in rows) * dense[0, 0]
        variables = [*layer.trainable_variables, dense]
        gradients = dmp.DistributedGradientTape(tape).gradient(loss, variables)
        optimizer.apply_gradients(zip(gradients, variables))

    def checkpoint(layer, dense, optimizer):
        return tf.train.Checkpoint(layer=layer, dense=dense, optimizer=optimizer)

    def weights(layer, dense, _):
        return [*layer.get_weights(True), dense.numpy()]

    first = objects(FIRST)
    first[0].set_weights(GIVEN)
    for batch in BATCHES[:2]:
        step(*first, batch)
    checkpoint(*first).write(f"{folder}/{SIZE}")
    step(*first, BATCHES[2])
    found = {"on": weights(*first)}
    second = objects(SECOND, "another")
    step(*second, BATCHES[1])  # its slots are there
    read = checkpoint(*second).read(f"{folder}/{SIZE}")
    read.assert_existing_objects_matched().assert_consumed()
    step(*second, BATCHES[2])
    found["again"] = weights(*second)
    third = objects(THIRD)
    third[2].build([*third[0].trainable_variables, third[1]])
    checkpoint(*third).read(f"{folder}/1").assert_existing_objects_matched().assert_consumed()
    found["of 1"] = weights(*third)
    step(*third, BATCHES[2])
    found["of 1 on"] = weights(*third)
    return found


class InGraph:
    """A layer and its training, in the default graph and session."""

    def __init__(self, options):
        self._ids = [tf1.placeholder(tf.int64, [None, 1]) for _ in SIZES]
        self.layer = layer_of(options)
        loss = sum(tf.reduce_sum(rows * rows) for rows in self.layer(self._ids)) / BATCH
        optimizer = tf1.train.AdamOptimizer(0.1)
        if hvd is not None:
            optimizer = hvd.DistributedOptimizer(optimizer, op=hvd.Sum)
        self._train = optimizer.minimize(loss)
        self.saver = tf1.train.Saver()

    def step(self, session, batch):
        """Weights of all tables after it."""
        session.run(self._train, dict(zip(self._ids, (one[PART] for one in batch))))
        return self.layer.get_weights(True)


def sessions(folder):
    """By tf.train.Saver. Weights of all tables after a step behind a checkpoint, "on": at once;
    "again": under another plan; "of 1": from what one rank has saved. A new saver of the imported
    graph copies the checkpoint."""
    found = {}
    with tf.Graph().as_default(), tf1.Session(config=session_config()) as session:
        model = InGraph(FIRST)
        session.run(tf1.global_variables_initializer())
        model.layer.set_weights(GIVEN)
        for batch in BATCHES[:2]:
            model.step(session, batch)
        model.saver.save(session, f"{folder}/session{SIZE}")
        exported = tf1.train.export_meta_graph()
        found["on"] = model.step(session, BATCHES[2])
    with tf.Graph().as_default(), tf1.Session(config=session_config()) as session:
        saver = tf1.train.import_meta_graph(exported)
        saver.restore(session, f"{folder}/session{SIZE}")
        saver.save(session, f"{folder}/imported{SIZE}", write_meta_graph=False)
    for what, saved_by, options in (("again", SIZE, SECOND), ("of 1", 1, THIRD)):
        with tf.Graph().as_default(), tf1.Session(config=session_config()) as session:
            model = InGraph(options)
            model.saver.restore(session, f"{folder}/session{saved_by}")
            found[what] = model.step(session, BATCHES[2])
    return found


def compiled(options):
    """A Keras model, and its layer; as a script of distributed-embeddings has them."""
    keras.backend.clear_session()
    inputs = [keras.Input([hotness], dtype=tf.int64) for hotness in (2, 1)]
    layers = [keras.layers.Embedding(8, 2), Embedding(9, 4, combiner="sum")]
    embedding = dmp.DistributedEmbedding(layers, input_table_map=[1, 0], **options)
    outputs = [tf.reshape(x, [-1, x.shape[-1]]) for x in embedding(inputs)]
    output = keras.layers.Dense(1, kernel_initializer="ones")(tf.concat(outputs, 1))
    model = keras.Model(inputs, output)
    model.compile(dmp.DistributedOptimizer(legacy.Adagrad(0.1)), "mse", run_eagerly=False)
    return model, embedding


def fit(folder):
    """Losses and weights of a Keras model, of which dense weights start as those of rank 0; "again"
    and "of 1" are the weights where its second epoch was another model's, that loaded weights."""
    rng = np.random.default_rng(6)
    given = [rng.normal(size=size) for size in ((8, 2), (9, 4))]
    ids = [rng.integers(0, 8, [24, 2]), rng.integers(0, 8, [24, 1])]
    labels = rng.normal(size=[24, 1])
    mine = [i for i in range(24) if i % BATCH * SIZE // BATCH == RANK]

    def epoch(model, callbacks=()):
        history = model.fit(
            [one[mine] for one in ids],
            labels[mine],
            batch_size=BATCH // SIZE,
            shuffle=False,
            verbose=0,
            callbacks=list(callbacks),
        )
        return history.history["loss"]

    def weights(model, embedding):
        return [*embedding.get_weights(True), *model.layers[-1].get_weights()]

    model, embedding = compiled({"data_parallel_threshold": 16, "column_slice_threshold": 9})
    np.save(f"{folder}/given{SIZE}.{RANK}.npy", given[0])  # of a table that several ranks copy
    embedding.set_weights([Path(f"{folder}/given{SIZE}.{RANK}.npy"), given[1]])
    model.layers[-1].set_weights([np.ones([6, 1]) + RANK, np.zeros([1])])  # to be broadcast
    dmp.broadcast_variables(model.variables, root_rank=0)
    losses = epoch(model, [dmp.BroadcastGlobalVariablesCallback(0)])
    model.save_weights(f"{folder}/keras{SIZE}")
    files = [f"{folder}/{SIZE}.{RANK}{ending}" for ending in (".h5", ".weights.h5")]
    files = [_outcome(lambda file=file: model.save_weights(file)) for file in files]
    found = {"losses": [*losses, *epoch(model)], "on": weights(model, embedding), "files": files}
    for what, saved_by, options in (
        ("again", SIZE, {"strategy": "memory_optimized", "column_slice_threshold": 9}),
        ("of 1", 1, {"row_slice_threshold": 30, "data_parallel_threshold": 16}),
    ):
        other, embedding = compiled(options)
        other.load_weights(f"{folder}/keras{saved_by}")
        epoch(other)
        found[what] = weights(other, embedding)
    return found


WAYS = [checkpoints, sessions, fit]


def other_batches():
    """What each rank is told where their batches, of inputs that come to the owners, differ: when
    the layer is built, and when it is run; and an output of a step after that."""
    keras.backend.clear_session()
    size = BATCH + SIZE * (RANK == 0)
    layers = [Embedding(5 + rank, 2, combiner="sum") for rank in range(SIZE)]
    layer = dmp.DistributedEmbedding(layers, dp_input=False)
    seen = [_outcome(lambda: layer([tf.zeros([size, 1], tf.int64)]))]
    run = tf.function(layer, input_signature=[[tf.TensorSpec([None, 1], tf.int64)]])
    seen.append(_outcome(lambda: run([tf.zeros([size, 1], tf.int64)])))
    seen.append(_outcome(lambda: run([tf.zeros([BATCH + RANK, 1], tf.int64)])))
    layer.set_weights([np.full([5 + rank, 2], rank) for rank in range(SIZE)])
    return seen, [rows.numpy() for rows in run([tf.zeros([BATCH, 1], tf.int64)])]


def _outcome(do):
    try:
        do()
    except (NotImplementedError, ValueError, tf.errors.OpError) as error:
        return type(error).__name__, str(error)
    return None, ""
