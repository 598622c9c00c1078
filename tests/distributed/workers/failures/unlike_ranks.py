# SPDX-License-Identifier: Apache-2.0
"""The same lookups on all ranks, and something else around them on rank 0.

Arguments: the names of what rank 0 has. Each is trained for some steps, as a session's graph or, in
eager mode, as a function; what is reported are the rank's parts of the losses.
"""

import functools
import os
import sys
import tempfile

import numpy as np
import tensorflow as tf

import sok_compat as sok
from sok_compat.runtime.tf_versions import keras
from tests.distributed.workers.ranks import (
    EAGER_VARIABLE,
    RANK,
    SIZE,
    hvd,
    report,
    session_config,
)

tf1 = tf.compat.v1
IS_EAGER = EAGER_VARIABLE in os.environ
STEPS, BATCH = 3, 8
KEYS = np.random.default_rng(3).integers(0, 40, [STEPS, BATCH])


def printed(tensor):
    with tf.control_dependencies([tf.print("seen", tf.size(tensor), output_stream=sys.stderr)]):
        return tf.identity(tensor)


def asserted(tensor):
    tf.debugging.assert_all_finite(tensor, "not finite")
    with tf.control_dependencies([tf.debugging.assert_greater(tf.size(tensor), -1)]):
        return tf.identity(tensor)


@functools.cache
def summary_writer():
    return tf.summary.create_file_writer(tempfile.mkdtemp())


def summarized(tensor):
    """Rank 0's graphs have a summary to fetch; its functions write one as they run."""
    if IS_EAGER:
        with summary_writer().as_default():
            tf.summary.write("mean", tf.reduce_mean(tensor), step=0)
    else:
        tf1.summary.scalar("mean", tf.reduce_mean(tensor))
    return tensor


def in_a_branch(tensor):
    return tf.cond(tf.size(tensor) > 0, lambda: tensor + 0, lambda: tensor)


def mapped(tensor):
    return tf.map_fn(lambda value: value * 1, tensor)


def named_before(tensor):
    for name in ("all2_all_dense_embedding", "lookup", "emb"):
        tf.identity(0, name=name)
    keras.layers.Dense(1)  # which takes an automatic name, too
    return tensor


def same(tensor):
    return tensor


def scaled(tensor):
    return tf.cond(tf.size(tensor) > 99, lambda: 2 * tensor, lambda: tensor)


def without_data(keys):
    return tf.zeros([0], keys.dtype)


SAME = {"keys": same, "between": same, "logits": same, "labels": same}
EXTRAS = {
    "nothing": {},
    "nothing, eleven layers": {},
    "print": {"between": printed},
    "assert": {"between": asserted},
    "identity": {"between": tf.identity},
    "summary": {"between": summarized},
    "branch before": {"keys": in_a_branch},
    "no data": {"keys": without_data},
    "names before": {"keys": named_before},
    "branch of logits": {"logits": in_a_branch},
    "map of logits": {"logits": mapped},
    "assert of logits": {"logits": asserted},
    "branch of labels": {"labels": in_a_branch},
    "map of labels": {"labels": mapped},
    "assert of labels": {"labels": asserted},
    "loss scale": {"logits": scaled},
}


class Model:
    """Layers that look up the same keys, and read one another's sizes only where `extra` says.

    Eleven of them where names matter: "emb_10" is before "emb_9".
    """

    def __init__(self, extra):
        self.extra = {**SAME, **(EXTRAS[extra] if RANK == 0 else {})}
        self.layers = [
            sok.All2AllDenseEmbedding(64, 2, 1, 1, use_hashtable=False)
            for _ in range(11 if extra in ("names before", "nothing, eleven layers") else 3)
        ]
        self.is_without_data = extra == "no data"

    def keys(self, step):
        """This rank's part of the batch; all of it on the last one where rank 0 has no data."""
        if self.is_without_data and SIZE > 1:
            return KEYS[step] if RANK == SIZE - 1 else KEYS[step][:0]
        return KEYS[step][RANK::SIZE]

    def loss(self, keys):
        labels = self.extra["labels"](tf.cast(keys % 2, tf.float32))
        keys = self.extra["keys"](keys)
        logits = 0.0
        for layer in self.layers:
            vectors = self.extra["between"](tf.reshape(layer(keys), [-1, 2]))
            logits += tf.reduce_sum(tf.sin(vectors), axis=1)
        return tf.reduce_sum((self.extra["logits"](logits) - labels) ** 2) / BATCH

    def tables(self):
        return [layer.embedding_variable for layer in self.layers]


def clipped(gradients, extra):
    return gradients if extra.startswith("nothing") else tf.clip_by_global_norm(gradients, 100)[0]


def metrics(loss):
    """Sums over ranks, which each rank makes in an order of its own."""
    if hvd is None:
        return [loss]
    names = ["a", "b"] if RANK == 0 else ["b", "a"]
    return [hvd.allreduce(loss, op=hvd.Sum, name=name) for name in names]


def train_in_graph(extra):
    with tf.Graph().as_default():
        sok.Init(global_batch_size=BATCH, seed=4)
        model = Model(extra)
        keys = tf1.placeholder(tf.int64, [None])
        loss = model.loss(keys)
        gradients = clipped(tf.gradients(loss, model.tables()), extra)
        with sok.OptimizerScope(model.tables()):
            train = tf1.train.AdagradOptimizer(0.1).apply_gradients(zip(gradients, model.tables()))
        fetches = [loss, train, metrics(loss)]
        summaries = tf1.summary.merge_all()
        if RANK == 0 and summaries is not None:
            fetches.append(summaries)
        with tf1.Session(config=session_config()) as session:
            session.run(tf1.global_variables_initializer())
            return [session.run(fetches, {keys: model.keys(step)})[0] for step in range(STEPS)]


def train_by_function(extra):
    keras.backend.clear_session()  # names of layers, which first values depend on, begin anew
    sok.Init(global_batch_size=BATCH, seed=4)
    model = Model(extra)
    optimizer = keras.optimizers.legacy.Adagrad(0.1)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
    def train(keys):
        with tf.GradientTape() as tape:
            loss = model.loss(keys)
        gradients = clipped(tape.gradient(loss, model.tables()), extra)
        with sok.OptimizerScope(model.tables()):
            optimizer.apply_gradients(zip(gradients, model.tables()))
        return loss

    return [train(tf.constant(model.keys(step))).numpy() for step in range(STEPS)]


def train_with_hooks():
    """Hooks of every kind on rank 0 alone."""
    with tf.Graph().as_default():
        sok.Init(global_batch_size=BATCH, seed=4)
        model = Model("nothing")
        step = tf1.train.get_or_create_global_step()
        keys = tf.gather(tf.constant(KEYS[:, RANK::SIZE]), step)
        loss = model.loss(keys)
        with sok.OptimizerScope(model.tables()):
            train = tf1.train.AdagradOptimizer(0.1).minimize(
                loss, var_list=model.tables(), global_step=step
            )
        tf1.summary.scalar("loss", loss)
        folder = tempfile.mkdtemp()
        hooks = [
            tf1.train.LoggingTensorHook({"loss": loss}, every_n_iter=1),
            tf1.train.ProfilerHook(save_steps=2, output_dir=folder),
            tf1.train.SummarySaverHook(
                save_steps=1, output_dir=folder, summary_op=tf1.summary.merge_all()
            ),
            tf1.train.StepCounterHook(every_n_steps=1, output_dir=folder),
            tf1.train.CheckpointSaverHook(folder, save_steps=2),
        ]
        losses = []
        with tf1.train.MonitoredSession(
            tf1.train.ChiefSessionCreator(config=session_config()), hooks if RANK == 0 else []
        ) as session:
            for _ in range(STEPS):
                losses.append(session.run([loss, train])[0])
        return losses


if __name__ == "__main__":
    train = train_by_function if IS_EAGER else train_in_graph
    seen = {extra: train(extra) for extra in sys.argv[1:] if extra in EXTRAS}
    if "hooks" in sys.argv:
        seen["hooks"] = train_with_hooks()
    report(seen)
