# SPDX-License-Identifier: Apache-2.0
"""A Keras model with embedding tables, as it is (--plain) and with the three lines that spread its
tables over ranks. `python -m examples.distributed_embeddings.train --help`"""

import argparse

import numpy as np
import tensorflow as tf

from examples.dlrm.ranks import connect
from sok_compat.distributed_embeddings import Embedding
from sok_compat.distributed_embeddings import dist_model_parallel as dmp
from sok_compat.runtime.tf_versions import keras

TABLES = [(20000, 16), (5000, 16), (300, 8), (40, 4)]  # (ids, width)
HOTNESS = [1, 10, 3, 1]


class Model(keras.Model):
    """Pooled embeddings into two dense layers."""

    def __init__(self, is_plain):
        super().__init__()
        layers = [Embedding(rows, width, combiner="sum") for rows, width in TABLES]
        if is_plain:
            self.embeddings = layers
        else:  # the first line
            self.embeddings = dmp.DistributedEmbedding(
                layers, strategy="memory_balanced", data_parallel_threshold=200
            )
        self.top = [
            keras.layers.Dense(
                units, activation, kernel_initializer=keras.initializers.GlorotUniform(seed=units)
            )
            for units, activation in ((32, "relu"), (1, "sigmoid"))
        ]

    def call(self, ids):
        """[batch, 1] of a list of ids [batch, hotness]."""
        if isinstance(self.embeddings, dmp.DistributedEmbedding):
            vectors = self.embeddings(ids)
        else:
            vectors = [layer(one) for layer, one in zip(self.embeddings, ids)]
        output = tf.concat(vectors, 1)
        for layer in self.top:
            output = layer(output)
        return output


def samples(number, seed=1):
    """Ids that make a click more or less likely, a few of them often, and clicks."""
    rng = np.random.default_rng(seed)
    logits = np.zeros(number)
    inputs = []
    for (rows, _), hotness in zip(TABLES, HOTNESS):
        ids = (rows * rng.random((number, hotness)) ** 4).astype(np.int64)
        logits += rng.permutation(np.linspace(-2, 2, rows))[ids].mean(1)
        inputs.append(ids)
    clicks = rng.random(number) < 1 / (1 + np.exp(-logits))
    return inputs, clicks.astype(np.float32)[:, np.newaxis]


def of_rank(values, ranks, batch):
    """This rank's part of each batch."""
    parts = values.reshape(-1, ranks.size, batch // ranks.size, values.shape[1])
    return parts[:, ranks.rank].reshape(-1, values.shape[1])


def train(ranks, num_samples, batch, epochs, is_plain=False):
    """The losses of the epochs, each a mean over this rank's samples."""
    inputs, clicks = samples(num_samples // batch * batch)
    model = Model(is_plain)
    optimizer = keras.optimizers.legacy.Adagrad(0.05)
    callbacks = []
    if not is_plain:  # the other two
        optimizer = dmp.DistributedOptimizer(optimizer)
        callbacks = [dmp.BroadcastGlobalVariablesCallback(0)]
    model.compile(optimizer, "binary_crossentropy")
    history = model.fit(
        [of_rank(ids, ranks, batch) for ids in inputs],
        of_rank(clicks, ranks, batch),
        batch_size=batch // ranks.size,
        epochs=epochs,
        shuffle=False,
        verbose=2 if ranks.rank == 0 else 0,
        callbacks=callbacks,
    )
    return history.history["loss"]


def main():
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=65536)
    parser.add_argument("--batch-size", type=int, default=1024, help="of all ranks together")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--plain", action="store_true", help="layers one by one, on one process")
    options = parser.parse_args()
    ranks = connect()
    if options.plain and ranks.size > 1:
        parser.error("--plain is for one process")
    if options.batch_size % ranks.size or options.samples < options.batch_size:
        parser.error(
            f"--batch-size must be a multiple of the {ranks.size} ranks, and at most --samples"
        )
    train(ranks, options.samples, options.batch_size, options.epochs, options.plain)


if __name__ == "__main__":
    main()
