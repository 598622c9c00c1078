# SPDX-License-Identifier: Apache-2.0
"""Trains tables of distributed-embeddings and a dense variable, eagerly, without Horovod."""

import numpy as np
import tensorflow as tf

from sok_compat import distributed_embeddings
from sok_compat.distributed_embeddings.python.layers import dist_model_parallel
from sok_compat.runtime.tf_versions import keras
from tests.distributed.workers.ranks import RANK, SIZE, report

BATCH, SIZES, DIM, STEPS = 8, (10, 14), 3, 3


def main():
    rng = np.random.default_rng(2)
    layers = [
        distributed_embeddings.Embedding(size, DIM, embeddings_initializer="ones") for size in SIZES
    ]
    model = dist_model_parallel.DistributedEmbedding(layers, strategy="basic")
    dense = tf.Variable(np.full([2 * DIM, 1], 0.5 * (1 + RANK), np.float32))
    dist_model_parallel.broadcast_variables([dense], root_rank=0)
    optimizer = keras.optimizers.legacy.SGD(0.1)
    losses = []
    for _ in range(STEPS):
        ids = [rng.integers(0, size, [BATCH, 1])[RANK::SIZE] for size in SIZES]
        with tf.GradientTape() as tape:
            vectors = [tf.reshape(x, [-1, DIM]) for x in model(ids)]
            loss = tf.reduce_mean(tf.square(tf.concat(vectors, 1) @ dense - 1.0))
        tape = dist_model_parallel.DistributedGradientTape(tape)
        variables = [dense, *model.trainable_variables]
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        losses.append(float(loss))
    refused = None
    try:
        dist_model_parallel.DistributedOptimizer(optimizer)
    except NotImplementedError as error:
        refused = str(error)
    rows = [part.tolist() for part in model.get_weights()]
    report({"losses": losses, "dense": dense.numpy(), "rows": rows, "refused": refused})


main()
