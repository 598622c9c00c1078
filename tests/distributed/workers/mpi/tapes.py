# SPDX-License-Identifier: Apache-2.0
"""Trains tables of distributed-embeddings and a dense variable, eagerly, without Horovod."""

import numpy as np
import tensorflow as tf

from sok_compat import distributed_embeddings
from sok_compat.distributed_embeddings.python.layers import dist_model_parallel
from sok_compat.runtime.tf_versions import keras
from tests.distributed.workers.ranks import RANK, SIZE, report

BATCH, SIZES, DIM, STEPS = 8, (10, 14), 3, 6


def main():
    rng = np.random.default_rng(2)
    layers = [
        distributed_embeddings.Embedding(size, DIM, embeddings_initializer="ones") for size in SIZES
    ]
    model = dist_model_parallel.DistributedEmbedding(layers, strategy="basic")
    dense = tf.Variable(np.full([2 * DIM, 1], 0.5 * (1 + RANK), np.float32))
    dist_model_parallel.broadcast_variables([dense], root_rank=0)
    variables = [dense, *model.trainable_variables]
    by_tape = keras.optimizers.legacy.SGD(0.1)
    by_optimizer = [
        dist_model_parallel.DistributedOptimizer(kind(0.1))
        for kind in (keras.optimizers.legacy.SGD, keras.optimizers.SGD)
    ]
    losses = []
    for step in range(STEPS):
        ids = [rng.integers(0, size, [BATCH, 1])[RANK::SIZE] for size in SIZES]
        with tf.GradientTape() as tape:
            vectors = [tf.reshape(x, [-1, DIM]) for x in model(ids)]
            loss = tf.reduce_mean(tf.square(tf.concat(vectors, 1) @ dense - 1.0))
        if step % 3 == 0:
            tape = dist_model_parallel.DistributedGradientTape(tape)
            by_tape.apply_gradients(zip(tape.gradient(loss, variables), variables))
        else:
            by_optimizer[step % 3 - 1].minimize(loss, variables, tape=tape)
        losses.append(float(loss))
    refused = None
    try:
        dist_model_parallel.DistributedOptimizer(by_tape, gradient_predivide_factor=2.0)
    except NotImplementedError as error:
        refused = str(error)
    rows = [part.tolist() for part in model.get_weights()]
    report(
        {
            "losses": losses,
            "dense": dense.numpy(),
            "rows": rows,
            "refused": refused,
            "fitted": fitted(),
        }
    )


def fitted():
    """The weights of a layer that starts otherwise on each rank, after the callback; and a bias
    that is left out."""
    layer = keras.layers.Dense(1, kernel_initializer=keras.initializers.Constant(1.0 + RANK))
    model = keras.Sequential([layer])
    model.build([None, 2])
    layer.bias.assign([float(RANK)])
    model.compile(keras.optimizers.legacy.SGD(0.0, momentum=0.9), "mse")
    callback = dist_model_parallel.BroadcastGlobalVariablesCallback(0, local_variables=[layer.bias])
    model.fit(np.ones([4, 2]), np.ones([4, 1]), 4, verbose=0, callbacks=[callback])
    return [weight.tolist() for weight in layer.get_weights()]


main()
