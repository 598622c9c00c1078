# SPDX-License-Identifier: Apache-2.0
"""DistributedEmbedding under several plans, trained on each rank's part of global batches, beside
plain variables on one process that is fed it all."""

import numpy as np
import tensorflow as tf

from sok_compat.distributed_embeddings.python.layers import dist_model_parallel as dmp
from sok_compat.distributed_embeddings.python.layers.embedding import Embedding
from sok_compat.runtime.tf_versions import keras
from tests.distributed.workers.ranks import RANK, SIZE, report

BATCH, STEPS = 12, 3
TABLES = [(30, 4, "sum"), (7, 6, "mean"), (50, 4, "sum"), (11, 3, None), (9, 4, "mean")]
INPUTS = [(0, 3), (1, 2), (2, 5), (3, 1), (4, 0), (1, 1), (0, 0)]  # (table, hotness); 0: ragged
legacy = keras.optimizers.legacy
OPTIMIZERS = {
    "SGD": lambda: legacy.SGD(0.5),
    "Adagrad": lambda: legacy.Adagrad(0.1),
    "Adam": lambda: keras.optimizers.Adam(0.05),
}
PLANS = {
    "basic": ({}, "SGD"),
    "columns": ({"strategy": "memory_balanced", "column_slice_threshold": 40}, "Adagrad"),
    "all kinds": (
        {
            "strategy": "memory_optimized",
            "data_parallel_threshold": 40,
            "row_slice_threshold": 200,
            "column_slice_threshold": 30,
        },
        "Adam",
    ),
    "rows": ({"row_slice_threshold": 36, "data_parallel_threshold": 33}, "Adagrad"),
}


def global_batch(rng):
    """For each input, a list of lists of ids."""
    batch = []
    for table, hotness in INPUTS:
        sizes = rng.integers(0, 4, BATCH) if hotness == 0 else [hotness] * BATCH
        batch.append([rng.integers(0, TABLES[table][0], size).tolist() for size in sizes])
    return batch


def fed(batch, of):
    """The part `of` the batch, as tensors."""
    parts = []
    for bags, (_, hotness) in zip(batch, INPUTS):
        ids = tf.ragged.constant(bags[of], dtype=tf.int64, ragged_rank=1)
        parts.append(ids if hotness == 0 else tf.reshape(ids.flat_values, [-1, hotness]))
    return parts


class Plain:
    """The same tables as variables."""

    def __init__(self, rows):
        self.variables = [tf.Variable(table) for table in rows]

    def __call__(self, ids):
        outputs = []
        for one, (table, _) in zip(ids, INPUTS):
            rows = tf.gather(self.variables[table], one)
            lengths = tf.cast(tf.maximum(tf.reduce_sum(tf.ones_like(one), 1), 1), tf.float32)
            divisor = lengths[:, None] if TABLES[table][2] == "mean" else 1.0
            outputs.append(tf.reduce_sum(rows, 1) / divisor)
        return outputs


def loss_of(outputs, dense):
    outputs = [tf.reshape(output, [-1, output.shape[-1]]) for output in outputs]
    return tf.reduce_mean((tf.tanh(tf.concat(outputs, 1)) @ dense - 0.7) ** 2)


def train(layer, dense, optimizer, batches, of, is_distributed, as_function):
    """The losses."""

    is_wrapped_first = is_distributed and as_function

    def step(*ids):
        tape = tf.GradientTape()
        tape = dmp.DistributedGradientTape(tape) if is_wrapped_first else tape
        with tape:
            loss = loss_of(layer(list(ids)), dense)
        if is_distributed and not is_wrapped_first:
            tape = dmp.DistributedGradientTape(tape)
        variables = [*(layer.trainable_variables if is_distributed else layer.variables), dense]
        gradients = tape.gradient(loss, variables)
        optimizer.apply_gradients(zip(gradients, variables))
        return loss

    run = tf.function(step) if as_function else step
    return [float(run(*fed(batch, of))) for batch in batches]


def one_plan(options, optimizer, as_function):
    rng = np.random.default_rng(5)
    keras.backend.clear_session()
    layers = [Embedding(rows, dim, combiner=combiner) for rows, dim, combiner in TABLES]
    layer = dmp.DistributedEmbedding(
        layers, input_table_map=[table for table, _ in INPUTS], **options
    )
    part = slice(BATCH * RANK // SIZE, BATCH * (RANK + 1) // SIZE)
    batches = [global_batch(rng) for _ in range(STEPS)]
    outputs = layer(fed(batches[0], part))
    first = layer.get_weights(all_ranks=True)
    given = [rng.normal(size=(rows, dim)).astype(np.float32) for rows, dim, _ in TABLES]
    layer.set_weights(given, chunk=20, use_lock=as_function)
    as_set = layer.get_weights(all_ranks=True)
    outputs = layer(fed(batches[0], part))
    dense = tf.Variable(first_dense())
    losses = train(layer, dense, OPTIMIZERS[optimizer](), batches, part, True, as_function)
    of_rank_0 = layer.get_weights()
    return {
        "first": first,
        "given": given,
        "as set": as_set,
        "outputs": [output.numpy() for output in outputs],
        "losses": losses,
        "trained": [*layer.get_weights(all_ranks=True), dense.numpy()],
        "num of rank 0": len(of_rank_0),
        "local": [hasattr(variable, "de_local") for variable in layer.weights],
        "table groups": layer.strategy.table_groups,
        "plain": one_process(given, batches, optimizer) if RANK == 0 else None,
    }


def first_dense():
    width = sum(TABLES[table][1] for table, _ in INPUTS)
    return np.full([width, 1], 0.1, np.float32)


def one_process(given, batches, optimizer):
    """The same of plain variables and the whole batch."""
    plain, dense, whole = Plain(given), tf.Variable(first_dense()), slice(0, BATCH)
    outputs = [output.numpy() for output in plain(fed(batches[0], whole))]
    losses = train(plain, dense, OPTIMIZERS[optimizer](), batches, whole, False, False)
    trained = [variable.numpy() for variable in (*plain.variables, dense)]
    return {"outputs": outputs, "losses": losses, "trained": trained}


def fit():
    """(losses, weights) of a Keras model, of which dense weights start as those of rank 0."""
    keras.backend.clear_session()
    inputs = [keras.Input([hotness], dtype=tf.int64) for hotness in (2, 1)]
    layers = [keras.layers.Embedding(8, 2), Embedding(9, 4, combiner="sum")]
    options = {"data_parallel_threshold": 16, "column_slice_threshold": 9}
    embedding = dmp.DistributedEmbedding(layers, input_table_map=[1, 0], **options)
    outputs = [tf.reshape(x, [-1, x.shape[-1]]) for x in embedding(inputs)]
    output = keras.layers.Dense(1, kernel_initializer="ones")(tf.concat(outputs, 1))
    model = keras.Model(inputs, output)
    rng = np.random.default_rng(6)
    embedding.set_weights([rng.normal(size=size) for size in ((8, 2), (9, 4))])
    model.layers[-1].set_weights([np.ones([6, 1]) + RANK, np.zeros([1])])  # to be broadcast
    model.compile(dmp.DistributedOptimizer(legacy.Adagrad(0.1)), "mse", run_eagerly=False)
    dmp.broadcast_variables(model.variables, root_rank=0)
    ids = [rng.integers(0, 8, [24, 2]), rng.integers(0, 8, [24, 1])]
    labels = rng.normal(size=[24, 1])
    mine = [i for i in range(24) if i % BATCH * SIZE // BATCH == RANK]
    history = model.fit(
        [one[mine] for one in ids],
        labels[mine],
        batch_size=BATCH // SIZE,
        epochs=2,
        shuffle=False,
        verbose=0,
        callbacks=[dmp.BroadcastGlobalVariablesCallback(0)],
    )
    return history.history["loss"], [*embedding.get_weights(True), *model.layers[-1].get_weights()]


if __name__ == "__main__":
    plans = {name: one_plan(*plan, name == "all kinds") for name, plan in PLANS.items()}
    report({"plans": plans, "fit": fit()})
