# SPDX-License-Identifier: Apache-2.0
"""What Horovod's collectives say and give when a script hands them a table's gradient."""

import numpy as np
import tensorflow as tf

import sok_compat as sok
from sok_compat.runtime.tf_versions import keras
from tests.distributed.workers.ranks import RANK, SIZE, hvd, report, session_config

tf1 = tf.compat.v1
KEYS = np.array([[3, 8, 3, 5], [8, 1, 6, 6]][RANK])
early_allreduce = hvd.allreduce
early_wrapper = hvd.DistributedOptimizer(keras.optimizers.legacy.SGD(0.1))
early_groups = hvd.DistributedOptimizer(keras.optimizers.legacy.SGD(0.1), groups=1)
early_tape = hvd.DistributedGradientTape(tf.GradientTape())


class Model:
    """A table, an ordinary embedding and a dense variable, in one loss."""

    def __init__(self):
        sok.Init(global_batch_size=4 * SIZE, seed=9)
        self.layer = sok.All2AllDenseEmbedding(100, 3, 1, 1, dynamic_input=True)
        self.table = self.layer.embedding_variable
        self.plain = tf1.Variable(np.ones([10, 3], np.float32), use_resource=True)
        self.dense = tf1.Variable(np.ones([3, 1], np.float32), use_resource=True)
        self.variables = [self.table, self.plain, self.dense]

    def loss(self, keys):
        features = self.layer(keys) + tf.gather(self.plain, keys)
        return tf.reduce_sum(tf.sin(features @ self.dense))


def error_of(call):
    """The kind and text of the error that a call raises; None: it raises none."""
    try:
        call()
    except (ValueError, RuntimeError) as error:
        return type(error).__name__, str(error)
    return None


def slices(gradient):
    return gradient.values, gradient.indices


def passed(gradients):
    """{what: (as it was, as it came back, the factor)} of what gives a gradient back."""
    table, plain, dense = gradients
    clipped = tf.IndexedSlices(tf.clip_by_value(table.values, -0.1, 0.1), table.indices)
    grouped = hvd.grouped_allreduce([dense, table, tf.zeros([2])], op=hvd.Sum)
    return {
        "sum": (slices(table), slices(hvd.allreduce(table, op=hvd.Sum)), 1.0),
        "average": (table.values, hvd.allreduce(table).values, 1.0 / SIZE),
        "values": (table.values, hvd.allreduce(table.values, op=hvd.Sum), 1.0),
        "clipped": (slices(clipped), slices(hvd.allreduce(clipped, op=hvd.Sum)), 1.0),
        "again": (table.values, hvd.allreduce(hvd.allreduce(table), op=hvd.Sum).values, 1.0),
        "scaled": (
            table.values,
            hvd.allreduce(tensor=table, op=hvd.Sum, prescale_factor=4.0).values,
            4.0,
        ),
        "grouped": (slices(table), slices(grouped[1]), 1.0),
        "grouped with": (hvd.allreduce(dense, op=hvd.Sum), grouped[0], 1.0),
        # An ordinary embedding is gathered from all ranks, as ever.
        "not a table": (hvd.allgather(plain.indices), hvd.allreduce(plain).indices, 1.0),
    }


def refused(gradients):
    """{what: the error of it}."""
    table = gradients[0]
    calls = {
        "allgather of slices": lambda: hvd.allgather(table),
        "allgather of values": lambda: hvd.allgather(table.values),
        "allgather of indices": lambda: hvd.allgather(table.indices),
        "grouped_allgather": lambda: hvd.grouped_allgather([tf.zeros([1]), table.values]),
        "broadcast": lambda: hvd.broadcast(table.values * 2.0, 0) if in_graph(table) else (
            hvd.broadcast(table.values, 0)
        ),
        "alltoall": lambda: hvd.alltoall(table.values),
        "reducescatter": lambda: hvd.reducescatter(table.values),
        "grouped_reducescatter": lambda: hvd.grouped_reducescatter([table.values]),
        "allreduce of indices": lambda: hvd.allreduce(table.indices, op=hvd.Sum),
        "allreduce, op=Max": lambda: hvd.allreduce(table, op=hvd.Max),
        "allreduce from before": lambda: early_allreduce(table, op=hvd.Sum),
    }  # fmt: skip
    return {name: error_of(call) for name, call in calls.items()}


def in_graph(gradient):
    return tf.is_symbolic_tensor(gradient.indices)


def in_a_session():
    with tf.Graph().as_default(), tf1.Session(config=session_config(rewrites=False)) as session:
        model = Model()
        keys = tf1.placeholder(tf.int64, [None])
        gradients = tf.gradients(model.loss(keys), model.variables)
        errors = refused(gradients)
        seen = passed(gradients)
        # A dense gradient by row ids: of all rows at once.
        whole = tf.gradients(tf.reduce_sum(model.table.value() ** 2), [model.table])[0]
        seen["dense"] = (whole, hvd.allreduce(whole), 1.0 / SIZE)
        seen["in a branch"] = (
            gradients[0].values,
            tf.cond(
                tf.size(keys) > 0,
                lambda: hvd.allreduce(gradients[0].values, op=hvd.Sum),
                lambda: gradients[0].values,
            ),
            1.0,
        )
        session.run(tf1.global_variables_initializer())
        seen = tf.nest.map_structure(tf.convert_to_tensor, seen)
        return session.run(seen, {keys: KEYS}), errors


def eagerly(function=None, forward=None):
    model = Model()
    loss = (forward or (lambda call: call))(model.loss)
    errors = {}

    def step(keys):
        with tf.GradientTape() as tape:
            value = loss(keys)
        gradients = tape.gradient(value, model.variables)
        errors.update(refused(gradients))
        return passed(gradients)

    seen = (function or (lambda call: call))(step)(tf.constant(KEYS))
    return tf.nest.map_structure(np.asarray, seen), errors


def made_too_early():
    """The errors of wrappers from before the first sok.Init."""
    model = Model()

    def taped():
        with early_tape:
            loss = model.loss(tf.constant(KEYS))
        early_tape.gradient(loss, model.variables)

    def minimized(wrapper):
        wrapper.minimize(lambda: model.loss(tf.constant(KEYS)), model.variables)

    return {
        "wrapper": error_of(lambda: minimized(early_wrapper)),
        "wrapper with groups": error_of(lambda: minimized(early_groups)),
        "tape": error_of(taped),
    }


WAYS = {
    "in a session": in_a_session,
    "eager": eagerly,
    "in a function": lambda: eagerly(function=tf.function),
    "forward in a function": lambda: eagerly(forward=tf.function),
    "nested functions": lambda: eagerly(tf.function, tf.function),
}

if __name__ == "__main__":
    report({"too early": made_too_early(), **{name: run() for name, run in WAYS.items()}})
