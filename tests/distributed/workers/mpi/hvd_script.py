# SPDX-License-Identifier: Apache-2.0
"""A script that imports Horovod where it is not installed: in a graph, eagerly, and collectives."""

import os
import sys
from importlib.machinery import PathFinder

import numpy as np
import tensorflow as tf

from sok_compat.run.horovod_stand_in import stand_in_for_horovod
from tests.distributed.workers.ranks import report, session_config

_found = PathFinder.find_spec


def _without_horovod(name, path=None, target=None):
    return None if name.partition(".")[0] == "horovod" else _found(name, path, target)


for _name in [name for name in sys.modules if name.partition(".")[0] == "horovod"]:
    del sys.modules[_name]  # which the parent of this process has imported
PathFinder.find_spec = staticmethod(_without_horovod)
stand_in_for_horovod()

import horovod.tensorflow as hvd  # noqa: E402

import sok_compat as sok  # noqa: E402
from sok_compat.runtime.tf_versions import keras  # noqa: E402

tf1 = tf.compat.v1
BATCH, NUM_KEYS, DIM, STEPS = 12, 30, 4, 4
START = np.linspace(-1, 1, DIM, dtype=np.float32)[:, np.newaxis]


def shares():
    """[steps] of the keys of this rank."""
    keys = np.random.default_rng(5).integers(0, NUM_KEYS, [STEPS, BATCH])
    return keys[:, hvd.rank() :: hvd.size()]


class Model:
    def __init__(self):
        sok.Init(global_batch_size=BATCH, seed=3)
        layer = sok.All2AllDenseEmbedding(NUM_KEYS, DIM, 1, 1, dynamic_input=True)
        self.layer, self.table = layer, layer.embedding_variable
        self.dense = tf1.Variable(START * (1 + hvd.rank()), name="dense")  # until it is broadcast

    def loss(self, keys):
        return tf.reduce_mean(tf.square(self.layer(keys) @ self.dense - 1.0))

    def trained(self):
        """(keys, rows, the dense variable)."""
        return *self.table.export(), self.dense.read_value()


def seen_of(losses, trained):
    keys, rows, dense = trained
    return {"losses": losses, "dense": dense, "rows": dict(zip(keys, rows))}


def in_a_graph():
    with tf.Graph().as_default():
        model = Model()
        keys = tf1.placeholder(tf.int64, [None])
        loss = model.loss(keys)
        optimizer = hvd.DistributedOptimizer(tf1.train.AdagradOptimizer(0.5))
        with sok.OptimizerScope([model.table]):
            train_op = optimizer.minimize(loss)
        hook = hvd.BroadcastGlobalVariablesHook(0)
        trained = model.trained()
        with tf1.train.MonitoredSession(
            tf1.train.ChiefSessionCreator(config=session_config(rewrites=False)), [hook]
        ) as session:
            losses = [session.run([loss, train_op], {keys: share})[0] for share in shares()]
            return seen_of(losses, session.run(trained))


def eagerly():
    model = Model()
    hvd.broadcast_variables([model.dense, model.table], root_rank=0)
    by_tape = keras.optimizers.legacy.SGD(0.3)
    by_optimizer = hvd.DistributedOptimizer(keras.optimizers.legacy.SGD(0.1))
    variables, losses = [model.table, model.dense], []
    for number, share in enumerate(shares()):
        tape = tf.GradientTape()
        with tape:
            loss = model.loss(tf.constant(share))
        if number % 2:
            tape = hvd.DistributedGradientTape(tape)
            by_tape.apply_gradients(zip(tape.gradient(loss, variables), variables))
        else:
            by_optimizer.minimize(loss, variables, tape=tape)
        losses.append(loss.numpy())
    return seen_of(losses, [each.numpy() for each in model.trained()])


def collectives():
    own = tf.constant([float(hvd.rank() + 1)])
    numbers = tf.range(hvd.size(), dtype=tf.float32) + hvd.rank() * hvd.size()
    seen = {
        "sum": hvd.allreduce(own, op=hvd.Sum),
        "mean": hvd.allreduce(own, average=True),
        "largest": hvd.grouped_allreduce([own], op=hvd.Max)[0],
        "all": hvd.allgather(own),
        "first": hvd.broadcast(own, 0),
        "to each": hvd.alltoall(numbers),
        "to each, split": hvd.alltoall(numbers, splits=[1] * hvd.size())[0],
    }
    return {name: value.numpy().tolist() for name, value in seen.items()}


def error_of(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def main():
    errors = [error_of(hvd.size), error_of(lambda: hvd.ProcessSet)]
    hvd.init()
    errors.append(error_of(lambda: hvd.allreduce(1.0, prescale_factor=2.0)))
    errors.append(error_of(lambda: hvd.DistributedOptimizer(object())))
    report(
        {
            "ranks": (hvd.rank(), hvd.size(), hvd.is_initialized()),
            "graph": in_a_graph(),
            "eager": eagerly(),
            "collectives": collectives(),
            "errors": errors,
            "file": getattr(sys.modules["horovod"].__spec__, "origin", "none"),
        }
    )
    assert os.environ["SOK_TEST_FOLDER"]


main()
