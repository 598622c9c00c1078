# SPDX-License-Identifier: Apache-2.0
"""Scripts as TensorFlow 2 and Horovod users write them, with Horovod on one process as well.

Each is a script of its own, with its way to train and to start all ranks from the same weights.
They share the model and the data alone.
"""

import sys

import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras
import numpy as np
import tensorflow as tf

import sok_compat as sok
from sok_compat.runtime.tf_versions import keras
from tests.distributed.workers.ranks import report

hvd.init()
legacy = keras.optimizers.legacy
GLOBAL_BATCH = 8
NUM_STEPS = 4
CAPACITY = 1 << 28  # rows that nobody has memory for: scripts declare what may come


class Model(keras.Model):
    """An embedding layer with its table, an ordinary embedding, and a dense layer.

    Dense weights are other ones on each rank unless `same_weights`.
    """

    def __init__(self, same_weights=False, capacity=CAPACITY):
        super().__init__()
        seed = 1 if same_weights else 1 + hvd.rank()
        random = keras.initializers.RandomNormal(stddev=0.3, seed=seed)
        self.embedding = sok.All2AllDenseEmbedding(
            max_vocabulary_size_per_gpu=capacity, embedding_vec_size=4, slot_num=2, nnz_per_slot=1
        )
        self.plain = keras.layers.Embedding(30, 4, embeddings_initializer=random)
        self.dense = keras.layers.Dense(1, kernel_initializer=random)

    def call(self, keys, training=True):
        of_table = tf.reshape(self.embedding(keys, training=training), [-1, 8])
        of_plain = tf.reshape(self.plain(keys), [-1, 8])
        return self.dense(tf.concat([of_table, of_plain], 1))

    def variables_of_kinds(self):
        """([tables], [others])"""
        return sok.split_embedding_variable_from_others(self.trainable_variables)


def shares():
    """This rank's keys and labels in each step."""
    rng = np.random.default_rng(4)
    mine = slice(hvd.rank(), None, hvd.size())
    for _ in range(NUM_STEPS):
        keys = rng.integers(0, 30, [GLOBAL_BATCH, 2, 1])
        labels = rng.normal(size=[GLOBAL_BATCH, 1]).astype(np.float32)
        yield tf.constant(keys[mine]), tf.constant(labels[mine])


def losses_of(model, keys, labels):
    return tf.reshape((model(keys) - labels) ** 2, [-1])


def global_mean(losses):
    return tf.nn.compute_average_loss(losses, global_batch_size=GLOBAL_BATCH)


def outcome(model, losses):
    """(losses, [other variables], {key: row of the table})."""
    (table,), others = model.variables_of_kinds()
    keys, rows = (tensor.numpy() for tensor in table.export())
    losses = [float(loss) for loss in losses]
    return losses, [v.numpy() for v in others], dict(zip(keys.tolist(), rows))


def two_optimizers_and_allreduce(compiled):
    """Tables apart; hvd.allreduce of what is dense, after the tables' own exchange."""
    model = Model(same_weights=True)
    of_tables, of_others = sok.optimizers.Adam(0.05), legacy.SGD(0.1)

    def step(keys, labels, is_first):
        with tf.GradientTape() as tape:
            loss = global_mean(losses_of(model, keys, labels))
        tables, others = model.variables_of_kinds()
        table_gradients, gradients = tape.gradient(loss, [tables, others])
        with sok.OptimizerScope(tables):
            of_tables.apply_gradients(
                zip(table_gradients, tables), experimental_aggregate_gradients=False
            )
        with tf.control_dependencies(table_gradients):
            gradients = [hvd.allreduce(gradient, op=hvd.Sum) for gradient in gradients]
        of_others.apply_gradients(zip(gradients, others))
        if is_first:
            hvd.broadcast_variables(others, root_rank=0)
            hvd.broadcast_variables(of_others.variables(), root_rank=0)
        return hvd.allreduce(loss, op=hvd.Sum)

    if compiled:
        step = tf.function(step)
    losses = [step(*share, number == 0) for number, share in enumerate(shares())]
    return outcome(model, losses)


def distributed_tape(compiled, strategy=None, **options):
    """One optimizer for all, the mean over the rank's share, and Horovod's tape."""
    # Horovod's broadcast takes the variables of one MirroredStrategy for those of an earlier one.
    same_weights = strategy is not None
    strategy = strategy or tf.distribute.get_strategy()
    with strategy.scope():
        model = Model(same_weights)
        optimizer = legacy.Adagrad(0.1)

    def train(keys, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(losses_of(model, keys, labels))
        tape = hvd.DistributedGradientTape(tape, **options)
        gradients = tape.gradient(loss, model.trainable_variables)
        with sok.OptimizerScope(model.trainable_variables):
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return hvd.allreduce(loss)

    def step(*share):
        return strategy.reduce("SUM", strategy.run(train, args=share), axis=None)

    if compiled:
        step = tf.function(step)
    with strategy.scope():
        model(next(shares())[0], training=False)  # makes the variables
    hvd.broadcast_variables(model.variables, root_rank=0)
    losses = [step(*share) for share in shares()]
    before = outcome(model, losses)
    hvd.broadcast_variables(optimizer.variables(), root_rank=0)  # slots of tables among them
    np.testing.assert_equal(outcome(model, losses), before)
    return before


def allreduce_of_all():
    """All gradients alike, those of tables too."""
    model = Model()
    optimizer = legacy.SGD(0.1)
    model(next(shares())[0], training=False)
    hvd.broadcast_variables(model.variables, root_rank=0, inplace=True)
    losses = []
    for keys, labels in shares():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(losses_of(model, keys, labels))
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients = [hvd.allreduce(gradient) for gradient in gradients]
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        losses.append(hvd.allreduce(loss))
    return outcome(model, losses)


def clipped_tape():
    """Horovod's tape, which makes slices dense, then clipping by the norm over all ranks."""
    model = Model(capacity=64)
    optimizer = legacy.SGD(0.5)

    @tf.function
    def step(keys, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(losses_of(model, keys, labels))
        tape = hvd.DistributedGradientTape(tape, sparse_as_dense=True)
        gradients = tape.gradient(loss, model.trainable_variables)
        clipped, norm = sok.clip_by_global_norm(gradients, 0.2)
        optimizer.apply_gradients(zip(clipped, model.trainable_variables))
        return norm

    model(next(shares())[0], training=False)
    hvd.broadcast_variables(model.variables, root_rank=0)
    return outcome(model, [step(*share) for share in shares()])


def fit(make_optimizer, strategy=None):
    """Keras with Horovod's optimizer and callback."""
    with (strategy or tf.distribute.get_strategy()).scope():
        return fit_in_scope(make_optimizer)


def fit_in_scope(make_optimizer):
    model = Model(same_weights=True, capacity=64)  # which the callback comes too late for
    keys, labels = (tf.concat(parts, 0) for parts in zip(*shares()))
    model(keys[:1], training=False)
    optimizer = hvd_keras.DistributedOptimizer(make_optimizer())
    model.compile(optimizer, "mse")
    history = model.fit(
        tf.data.Dataset.from_tensor_slices((keys, labels)).batch(GLOBAL_BATCH // hvd.size()),
        epochs=2,
        verbose=0,
        callbacks=[
            hvd_keras.callbacks.BroadcastGlobalVariablesCallback(0),
            hvd_keras.callbacks.MetricAverageCallback(),
        ],
    )
    return outcome(model, history.history["loss"])


def mirrored():
    return tf.distribute.MirroredStrategy(["CPU:0"])


SCRIPTS = {
    "eager, allreduce": lambda: two_optimizers_and_allreduce(compiled=False),
    "function, allreduce": lambda: two_optimizers_and_allreduce(compiled=True),
    "eager, tape": lambda: distributed_tape(compiled=False),
    "function, tape": lambda: distributed_tape(compiled=True),
    "function, tape with groups": lambda: distributed_tape(compiled=True, groups=2),
    "function, tape in a strategy": lambda: distributed_tape(compiled=True, strategy=mirrored()),
    "function, clipped tape": clipped_tape,
    "eager, allreduce of all, broadcast in place": lambda: allreduce_of_all(),
    "fit, legacy SGD": lambda: fit(lambda: legacy.SGD(0.1)),
    "fit, Adam": lambda: fit(lambda: keras.optimizers.Adam(0.01)),
    "fit in a strategy, Adam": lambda: fit(lambda: keras.optimizers.Adam(0.01), mirrored()),
}

if __name__ == "__main__":
    seen = {}
    for name in sys.argv[1:]:
        keras.backend.clear_session()
        sok.Init(global_batch_size=GLOBAL_BATCH, seed=5)
        seen[name] = SCRIPTS[name]()
    report(seen)
