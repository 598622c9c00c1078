# SPDX-License-Identifier: Apache-2.0
"""Clips by the global norm of tables and dense variables, in each way that gradients come."""

import logging

import numpy as np
import tensorflow as tf

import sok_compat as sok
from sok_compat.runtime.tf_versions import keras
from tests.distributed.workers.global_batch import GLOBAL_BATCH, division
from tests.distributed.workers.ranks import RANK, SIZE, hvd, report, session_config

tf1 = tf.compat.v1
DIVISIONS = ["equal", "uneven", "none for the first", "equal"]
CLIP_NORM = 0.5


def clip(gradients, **named):
    if named:
        return sok.clip_by_global_norm(gradients, CLIP_NORM, **named)
    return tf.clip_by_global_norm(gradients, CLIP_NORM)


def reduced(gradients):
    return [hvd.allreduce(g, op=hvd.Sum) if hvd else g for g in gradients]


class Model:
    """Two tables, of which the first is looked up twice, and two dense variables."""

    def __init__(self):
        sok.Init(global_batch_size=GLOBAL_BATCH, seed=9)
        self.layers = [sok.All2AllDenseEmbedding(100, dim, 2, 2) for dim in (3, 4)]
        self.tables = [layer.embedding_variable for layer in self.layers]
        first = np.random.default_rng(0).normal(size=[40, 1]).astype(np.float32)
        self.dense = [tf1.Variable(first, name="dense"), tf1.Variable([0.5], name="bias")]
        self.variables = [*self.tables, *self.dense]

    def loss(self, keys):
        """This rank's part of the mean over the global batch."""
        outputs = [layer(k) for layer in self.layers for k in (keys, keys // 2)][:3]
        features = tf.concat([tf.reshape(x, [-1, 4 * x.shape[-1]]) for x in outputs], 1)
        errors = (tf.matmul(features, self.dense[0]) + self.dense[1] - 1.0) ** 2
        return tf.reduce_sum(errors) / GLOBAL_BATCH

    def clipped(self, gradients, **kwargs):
        """(clipped, the norm): dense gradients are summed over ranks before."""
        return clip([*gradients[:2], *reduced(gradients[2:])], **kwargs)


def batches():
    """This rank's share of each."""
    for number, kind in enumerate(DIVISIONS):
        keys = np.random.default_rng(number).integers(-30, 30, [GLOBAL_BATCH, 2, 2])
        begins = division(kind, SIZE)
        yield keys[begins[RANK] : begins[RANK + 1]]


def rows_of(exported):
    return [dict(zip(keys.tolist(), rows)) for keys, rows in exported]


def in_a_session():
    with tf.Graph().as_default(), tf1.Session(config=session_config(rewrites=False)) as session:
        model = Model()
        keys = tf1.placeholder(tf.int64, [None, 2, 2])
        gradients = tf.gradients(model.loss(keys), model.variables)
        clipped, norm = model.clipped(gradients)
        optimizer = tf1.train.GradientDescentOptimizer(0.3)
        step = optimizer.apply_gradients(zip(clipped, model.variables))
        exported = [table.export() for table in model.tables]
        session.run(tf1.global_variables_initializer())
        norms = [session.run([norm, step], {keys: batch})[0] for batch in batches()]
        return norms, session.run(model.dense), rows_of(session.run(exported))


def eagerly(make_step):
    """`make_step(model, optimizer)` makes a function of keys that trains and returns the norm."""
    model = Model()
    step = make_step(model, keras.optimizers.legacy.SGD(0.3))
    norms = [float(step(tf.constant(batch))) for batch in batches()]
    exported = [[tensor.numpy() for tensor in table.export()] for table in model.tables]
    return norms, [variable.numpy() for variable in model.dense], rows_of(exported)


def plain(model, optimizer):
    def step(keys):
        with tf.GradientTape() as tape:
            loss = model.loss(keys)
        clipped, norm = model.clipped(tape.gradient(loss, model.variables))
        optimizer.apply_gradients(zip(clipped, model.variables))
        return norm

    return step


def in_a_function(model, optimizer):
    return tf.function(plain(model, optimizer), reduce_retracing=True)


def forward_in_a_function(model, optimizer):
    """The tape is outside, and so is the loss scaling that replaces the values of slices."""
    forward = tf.function(model.loss, reduce_retracing=True)

    def step(keys):
        with tf.GradientTape() as tape:
            loss = 8.0 * forward(keys)
        gradients = tape.gradient(loss, model.variables)
        gradients = [
            tf.IndexedSlices(g.values / 8.0, g.indices, g.dense_shape)
            if isinstance(g, tf.IndexedSlices)
            else g / 8.0
            for g in gradients
        ]
        clipped, norm = model.clipped(gradients)
        optimizer.apply_gradients(zip(clipped, model.variables))
        return norm

    return step


def as_arguments(model, optimizer):
    """Nothing is known of what a function gets but what its caller says."""

    @tf.function(reduce_retracing=True)
    def update(gradients):
        named = {} if SIZE == 1 else {"variables": model.variables}
        clipped, norm = model.clipped(gradients, **named)
        optimizer.apply_gradients(zip(clipped, model.variables))
        return norm

    def step(keys):
        with tf.GradientTape() as tape:
            loss = model.loss(keys)
        return update(tape.gradient(loss, model.variables))

    return step


def with_a_distributed_tape(model, optimizer):
    @tf.function(reduce_retracing=True)
    def step(keys):
        tape = tf.GradientTape()
        with tape:
            loss = model.loss(keys)
        if hvd:
            tape = hvd.DistributedGradientTape(tape, op=hvd.Sum)
        clipped, norm = clip(tape.gradient(loss, model.variables))
        optimizer.apply_gradients(zip(clipped, model.variables))
        return norm

    return step


def by_an_optimizer(model, optimizer):
    """Its global_clipnorm. What it reports as norms are those of the variables."""
    optimizer = keras.optimizers.legacy.SGD(0.3, global_clipnorm=CLIP_NORM)

    @tf.function(reduce_retracing=True)
    def step(keys):
        with tf.GradientTape() as tape:
            loss = model.loss(keys)
        gradients = tape.gradient(loss, model.variables)
        pairs = zip([*gradients[:2], *reduced(gradients[2:])], model.variables)
        with tf.control_dependencies([optimizer.apply_gradients(pairs)]):
            return tf.linalg.global_norm([tf.identity(each) for each in model.dense])

    return step


class Warnings(logging.Handler):
    """What the package warns of."""

    def __init__(self):
        super().__init__()
        self.messages = []
        logging.getLogger("sok_compat").addHandler(self)

    def emit(self, record):
        self.messages.append(record.getMessage())


def in_a_branch():
    """What is said of a norm that the other ranks may not take."""
    warnings = Warnings()
    model = Model()

    @tf.function
    def clip_if(condition, keys):
        with tf.GradientTape() as tape:
            loss = model.loss(keys)
        gradients = tape.gradient(loss, model.tables)
        return tf.cond(condition, lambda: clip(gradients)[1], lambda: 0.0)

    clip_if(tf.constant(RANK == 0), tf.constant(next(batches())))
    return warnings.messages


SCRIPTS = {
    "in a session": in_a_session,
    "eager": lambda: eagerly(plain),
    "in a function": lambda: eagerly(in_a_function),
    "forward in a function": lambda: eagerly(forward_in_a_function),
    "gradients as arguments": lambda: eagerly(as_arguments),
    "by an optimizer": lambda: eagerly(by_an_optimizer),
    "with a distributed tape": lambda: eagerly(with_a_distributed_tape),
}

if __name__ == "__main__":
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    report({"warned": in_a_branch(), **{name: run() for name, run in SCRIPTS.items()}})
