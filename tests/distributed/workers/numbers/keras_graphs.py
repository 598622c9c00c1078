# SPDX-License-Identifier: Apache-2.0
"""Keras's fit, evaluate and predict in graph mode, on this rank's part of each batch.

Arguments: names of OPTIMIZERS.
"""

import sys

import numpy as np
import tensorflow as tf

import sok_compat as sok
from sok_compat.runtime.tf_versions import keras
from tests.distributed.workers.global_batch import GLOBAL_BATCH
from tests.distributed.workers.ranks import RANK, SIZE, hvd, report, session_config

if hvd:
    import horovod.tensorflow.keras as hvd_keras

NUM_STEPS, SLOTS, DIM = 4, 2, 3
RANDOM = np.random.default_rng(5)
KEYS = RANDOM.integers(0, 40, [NUM_STEPS, GLOBAL_BATCH, SLOTS, 1])
LABELS = RANDOM.normal(size=[NUM_STEPS, GLOBAL_BATCH, 1]).astype(np.float32)
OPTIMIZERS = {
    "SGD": lambda: keras.optimizers.legacy.SGD(0.1),
    "Adagrad": lambda: keras.optimizers.legacy.Adagrad(0.1),
    "Adam of all rows": lambda: sok.tf.keras.optimizers.Adam(0.01),
    "Adagrad in its scope": lambda: keras.optimizers.legacy.Adagrad(0.1),
}


def mine(values):
    """This rank's samples of all steps, one after the other."""
    return values[:, RANK::SIZE].reshape([-1, *values.shape[2:]])


def fit(name):
    """Losses as Keras reports them, what it predicts, dense weights, and {key: row}."""
    keras.backend.clear_session()
    with tf.Graph().as_default(), tf.compat.v1.Session(config=session_config()) as session:
        sok.Init(global_batch_size=GLOBAL_BATCH, seed=11)
        layer = sok.All2AllDenseEmbedding(200, DIM, SLOTS, 1)
        inputs = keras.Input([SLOTS, 1], dtype=tf.int64)
        features = keras.layers.Reshape([SLOTS * DIM])(layer(inputs))
        dense = keras.layers.Dense(1, kernel_initializer="ones")
        model = keras.Model(inputs, dense(features))
        optimizer = OPTIMIZERS[name]()
        if hvd:  # averages, as the loss does; tables are left to the tables
            optimizer = hvd_keras.DistributedOptimizer(optimizer)
        model.compile(optimizer, "mse")
        table = layer.embedding_variable
        if name.endswith("in its scope"):  # where the updates are built, and with them the slots
            with sok.OptimizerScope([table]):
                model._make_train_function()
        batch = GLOBAL_BATCH // SIZE
        keys, labels = mine(KEYS), mine(LABELS)
        options = dict(batch_size=batch, verbose=0)
        history = model.fit(keys, labels, epochs=2, shuffle=False, **options).history["loss"]
        evaluated = model.evaluate(keys, labels, **options)
        predicted = model.predict(keys, **options)
        found, rows = session.run(table.export())
        return {
            "losses": [*history, evaluated],
            "predicted": predicted.reshape([NUM_STEPS, batch]),
            "dense": model.layers[-1].get_weights(),
            "rows": dict(zip(found.tolist(), rows)),
        }


if __name__ == "__main__":
    report({name: fit(name) for name in sys.argv[1:]})
