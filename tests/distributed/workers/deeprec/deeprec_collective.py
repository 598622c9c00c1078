# SPDX-License-Identifier: Apache-2.0
"""One model in all the ways in which scripts for DeepRec train it on several ranks."""

import contextlib
import sys
import tempfile
import time

import numpy as np

import sok_compat.deeprec as tf
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config

tf.config.experimental.enable_distributed_strategy("collective")
import horovod.tensorflow as hvd  # noqa: E402 - as scripts do; the strategy has initialized it
from tensorflow.python.distribute.group_embedding_collective_strategy import (  # noqa: E402
    CollectiveStrategy,
)

GLOBAL_BATCH, STEPS, NUM_KEYS, DIMS = 8, 4, 12, (3, 2, 4)  # of two tables and an ordinary variable


def apply_clipped(optimizer, pairs):
    """Clips by the norm over all gradients, a tensor of that name."""
    gradients, variables = zip(*pairs)
    clipped, norm = tf.clip_by_global_norm(gradients, 0.5)
    tf.identity(norm, name="norm")
    return optimizer.apply_gradients(zip(clipped, variables), tf.train.get_global_step())


def of_allreduced_loss(loss, optimizer):
    """The optimizer is not told of ranks."""
    return optimizer.minimize(hvd.allreduce(loss), tf.train.get_global_step())


def of_parts(loss, optimizer):
    """A sum of losses, some of them over ranks; gradients are scaled before they are applied."""
    penalty = 0.1 * tf.nn.l2_loss(tf.trainable_variables("weights")[0])
    pairs = optimizer.compute_gradients(hvd.allreduce(0.5 * loss) + penalty + 0.5 * loss)
    pairs = [(half(gradient), variable) for gradient, variable in pairs]
    return optimizer.apply_gradients(pairs, tf.train.get_global_step())


def of_products(loss, optimizer):
    """A loss of a group of means over ranks, with weights."""
    losses = hvd.grouped_allreduce([loss, 0.5 * tf.reshape(loss, [1, 1])])
    total = tf.reduce_mean(tf.stack([tf.reshape(x, []) for x in losses]))
    total *= tf.placeholder_with_default(0.7, [])
    return optimizer.minimize(0.8 * total, tf.train.get_global_step())


# Of an export of a checkpoint that has no table, and weights of another shape, whichever TensorFlow
# comes to first.
REFUSALS = (tf.errors.NotFoundError, tf.errors.InvalidArgumentError)


def of_means(loss, optimizer):
    """Means over ranks that are written as quotients of sums, one of them scaled, and a gathered
    one."""
    CollectiveStrategy(differentiate_sums=True)
    num_samples = tf.cast(GLOBAL_BATCH // SIZE, tf.float32)
    total, number = (hvd.allreduce(x, op=hvd.Sum) for x in (num_samples * loss, num_samples))
    mean = hvd.allreduce(loss, op=hvd.Sum) / hvd.size()
    scaled = hvd.allreduce(loss, op=hvd.Sum, prescale_factor=1.0 / SIZE)
    gathered = tf.reduce_mean(hvd.allgather(tf.reshape(loss, [1])))
    means = tf.add_n([total / number, mean, scaled, gathered])
    train_op = optimizer.minimize(0.3 * means, tf.train.get_global_step())
    CollectiveStrategy()
    return train_op


def half(gradient):
    """Of a tensor or slices."""
    if not isinstance(gradient, tf.IndexedSlices):
        return 0.5 * gradient
    return tf.IndexedSlices(0.5 * gradient.values, gradient.indices, gradient.dense_shape)


def of_scope(loss, optimizer):
    """Gradients that the optimizer has computed, clipped by a norm over all."""
    return apply_clipped(optimizer, optimizer.compute_gradients(loss))


def of_tf_gradients(loss, optimizer):
    """The same of tf.gradients."""
    variables = tf.trainable_variables()
    gradients = tf.gradients(hvd.allreduce(loss), variables)
    return apply_clipped(optimizer, zip(gradients, variables))


def of_plain_gradients(loss, optimizer):
    """Gradients that a function of TensorFlow's own has computed; gated, or an update may come
    before a gradient that reads the same reference variable."""
    variables = tf.trainable_variables()
    loss = hvd.allreduce(loss)
    gradients = tf.compat.v2.compat.v1.gradients(loss, variables, gate_gradients=True)
    pairs = list(zip(gradients, variables))
    return optimizer.apply_gradients(pairs, tf.train.get_global_step())


def of_script(loss, optimizer):
    """Gradients that the script reduces once more."""
    pairs = [(hvd.allreduce(g), v) for g, v in optimizer.compute_gradients(loss)]
    return optimizer.apply_gradients(pairs, tf.train.get_global_step())


def of_sums(loss, optimizer):
    """A loss that is divided by the number of ranks, and gradients that the script sums."""
    pairs = optimizer.compute_gradients(loss / SIZE)
    pairs = [(hvd.allreduce(g, op=hvd.Sum), v) for g, v in pairs]
    return optimizer.apply_gradients(pairs, tf.train.get_global_step())


def of_wrapper(loss, optimizer):
    """Horovod's wrapper reduces, and the optimizer does not."""
    return hvd.DistributedOptimizer(optimizer).minimize(loss, tf.train.get_global_step())


IDIOMS = [
    (of_allreduced_loss, "GradientDescentOptimizer"),
    (of_allreduced_loss, "AdamOptimizer"),
    (of_parts, "GradientDescentOptimizer"),
    (of_products, "GradientDescentOptimizer"),
    (of_means, "GradientDescentOptimizer"),
    (of_scope, "GradientDescentOptimizer"),
    (of_scope, "AdagradOptimizer"),
    (of_tf_gradients, "GradientDescentOptimizer"),
    (of_plain_gradients, "GradientDescentOptimizer"),
    (of_script, "GradientDescentOptimizer"),
    (of_sums, "GradientDescentOptimizer"),
    (of_wrapper, "GradientDescentOptimizer"),
]


class Model:
    """Tables and an ordinary variable looked up in a group, and dense variables."""

    def __init__(self, ids, labels, num_tables=2):
        bags = tf.RaggedTensor.from_tensor(ids, row_splits_dtype=tf.int64)
        self.tables = [tf.get_embedding_variable(f"t{i}", DIMS[i]) for i in range(num_tables)]
        values = np.linspace(-1, 1, NUM_KEYS * DIMS[2]).reshape(NUM_KEYS, -1)
        # Other values on each rank, until rank 0's are broadcast.
        ordinary = tf.get_variable(
            "ordinary", values.shape, initializer=tf.constant_initializer(values * (1 + RANK))
        )
        combiners = ["sum", "mean"][:num_tables] + ["mean"]
        found = tf.nn.group_embedding_lookup_sparse(
            [*self.tables, ordinary], [bags] * len(combiners), combiners
        )
        inputs = tf.concat(found, 1)
        weights = tf.get_variable(
            "weights", [inputs.shape[1], 1], initializer=tf.constant_initializer(0.5 + RANK)
        )
        bias = tf.get_variable("bias", [], initializer=tf.constant_initializer(float(RANK)))
        self.logits = tf.squeeze(inputs @ weights, 1) + bias
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=self.logits)
        self.loss = 5.0 * tf.reduce_mean(losses)
        self.dense = [ordinary, weights, bias]


def make_batches():
    """[(ids, labels)] of this rank."""
    rng = np.random.default_rng(1)
    ids = rng.integers(0, NUM_KEYS, [STEPS, GLOBAL_BATCH, 2])
    return [(x[RANK::SIZE], (x.sum(1) % 2)[RANK::SIZE].astype(np.float32)) for x in ids]


def train(strategy, idiom, optimizer_name):
    """{what: its values after the steps} on this rank."""
    with tf.Graph().as_default() as graph, strategy.scope(seed=7):
        step = tf.train.get_or_create_global_step()
        if RANK == 0 and idiom is not of_wrapper:  # Horovod names what this reduces
            build_more()
        ids, labels = tf.placeholder(tf.int64, [None, 2]), tf.placeholder(tf.float32, [None])
        model = Model(ids, labels)
        train_op = idiom(model.loss, getattr(tf.train, optimizer_name)(0.3))
        exported = [table.export()[:2] for table in model.tables]
        names = [op.name for op in graph.get_operations() if op.name == "norm"]
        norms, losses = [graph.get_tensor_by_name(f"{name}:0") for name in names], []
        config = session_config(rewrites=False)
        with tf.train.MonitoredTrainingSession(
            is_chief=RANK == 0, config=config, save_summaries_steps=None
        ) as session:
            start = session.run(model.dense)
            for batch in make_batches():
                fed = dict(zip((ids, labels), batch))
                losses.append(session.run([model.loss, norms, train_op], fed)[:2])
            return {
                "start": start,
                "losses": [loss for loss, _ in losses],
                "norms": [norm for _, norm in losses],
                "dense": session.run(model.dense),
                "rows": [dict(zip(*session.run(pair))) for pair in exported],
                "step": session.run(step),
            }


class Stopped(Exception):
    """As if the job had been stopped."""


def save_increments(strategy):
    """The losses of a run that saves after each step and is stopped, and of one that goes on; what
    the first has saved last."""
    batches = make_batches()
    with tempfile.TemporaryDirectory() as folder:  # that of rank 0 counts
        losses, first, second = [], batches[:3], batches[3:]
        with contextlib.suppress(Stopped):
            train_saving(strategy, folder, first, losses, stops=True)
        names = dict(tf.train.list_variables(folder)) if RANK == 0 else {}
        keys = [name for name in names if name.endswith(".increment-keys")]
        saved = {name: tf.train.load_variable(folder, name).tolist() for name in keys}
        train_saving(strategy, folder, second, losses, stops=False)
    return {"losses": losses, "saved": saved}


def train_saving(strategy, folder, batches, losses, stops):
    """Appends the losses. Each second step saves a whole checkpoint."""
    with tf.Graph().as_default(), strategy.scope(seed=7):
        tf.train.get_or_create_global_step()
        ids, labels = tf.placeholder(tf.int64, [None, 2]), tf.placeholder(tf.float32, [None])
        model = Model(ids, labels)
        train_op = of_allreduced_loss(model.loss, tf.train.AdamOptimizer(0.3))
        tf.summary.scalar("loss", model.loss)
        with tf.train.MonitoredTrainingSession(
            is_chief=RANK == 0, checkpoint_dir=folder, config=session_config(rewrites=False),
            save_summaries_steps=1, save_checkpoint_steps=2,
            save_incremental_checkpoint_secs=1e-9,
        ) as session:  # fmt: skip
            for batch in batches:
                fed = dict(zip((ids, labels), batch))
                time.sleep(0.6)  # steps that are faster are not each looked at
                losses.append(session.run([model.loss, train_op], fed)[0])
            if stops:
                raise Stopped


def build_more():
    """What the graph of one rank may have beside the others'."""
    with tf.name_scope("over_ranks"):
        rows = tf.ones([1, 2])
    tf.gradients(tf.nn.embedding_lookup(rows, [0]), rows)


def be_refused_an_export(strategy):
    """Only rank 0 builds the graph for it."""
    with tempfile.TemporaryDirectory() as folder:
        with tf.Graph().as_default(), tf.Session() as session:
            variable = tf.get_variable("x", [])
            session.run(variable.initializer)
            tf.train.Saver().save(session, f"{folder}/model")
        with contextlib.suppress(*REFUSALS):
            exported = strategy.export_saved_model(f"{folder}/x", folder, lambda: signature(1))
            assert RANK and exported is None


def input_fn():
    """A dataset of this rank's share; no function that ranks could differ in."""
    ids, labels = (np.stack(values) for values in zip(*make_batches()))
    return tf.data.Dataset.from_tensor_slices(({"ids": ids}, labels))


def model_fn(features, labels, mode, params):
    """With as many tables as params["num_tables"]."""
    if labels is None:
        labels = tf.zeros([tf.shape(features["ids"])[0]])
    model = Model(features["ids"], labels, params["num_tables"])
    predictions = {"logits": model.logits}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions)
    train_op = of_allreduced_loss(model.loss, tf.train.AdagradOptimizer(0.3))
    return tf.estimator.EstimatorSpec(mode, loss=model.loss, train_op=train_op)


def signature(num_tables):
    """Builds a model to export."""
    ids = tf.placeholder(tf.int64, [None, 2])
    model = Model(ids, tf.zeros([tf.shape(ids)[0]]), num_tables)
    return tf.saved_model.predict_signature_def({"ids": ids}, {"logits": model.logits})


def use_estimator(strategy, num_tables):
    """What an estimator of the strategy, and exports of its checkpoint, give on this rank."""
    if not hasattr(tf, "estimator"):
        return None
    histories, params = {}, {"num_tables": num_tables}
    config = tf.estimator.RunConfig(session_config=session_config(rewrites=False))
    with tempfile.TemporaryDirectory() as folder:  # that of rank 0 counts
        for what, steps in (("new", STEPS), ("resumed", STEPS + 3), ("finished", STEPS + 3)):
            estimator = strategy.estimator(model_fn, f"{folder}/model", config, params)
            histories[what] = []
            estimator.train_and_evaluate(
                tf.estimator.TrainSpec(input_fn, max_steps=steps),
                tf.estimator.EvalSpec(input_fn),
                eval_every_n_iter=2,
                eval_history=histories[what],
            )
        assert estimator.train(input_fn, None, None, STEPS + 3, None) is estimator
        predicted = [each["logits"] for each in estimator.predict(input_fn)]
        exported = [
            strategy.export_saved_model(
                f"{folder}/exported", f"{folder}/model", lambda: signature(num_tables)
            ),
            estimator.export_saved_model(f"{folder}/by_estimator", serving_input),
        ]
        logits = [predict(each) for each in exported if each is not None]
    return {"histories": histories, "predicted": predicted, "logits": logits}


def serving_input():
    """As an estimator exports it."""
    ids = tf.placeholder(tf.int64, [None, 2])
    return tf.estimator.export.ServingInputReceiver({"ids": ids}, {"ids": ids})


def predict(folder):
    """What an exported model gives for a few ids."""
    with tf.Graph().as_default(), tf.Session(config=session_config(rewrites=False)) as session:
        graph = tf.saved_model.load(session, ["serve"], folder)
        inputs_and_outputs = graph.signature_def["serving_default"]
        ids, logits = inputs_and_outputs.inputs["ids"], inputs_and_outputs.outputs["logits"]
        return session.run(logits.name, {ids.name: [[1, 2], [3, 11]]})


def main():
    strategy = CollectiveStrategy()
    assert tf.python.ops.array_ops and tf.python.distribute.distribute_lib  # TensorFlow's, as ever
    ranks = [strategy.rank, strategy.rank(), strategy.world_size, strategy.world_size()]
    assert ranks == [RANK, RANK, SIZE, SIZE]
    be_refused_an_export(strategy)
    seen = {}
    for idiom, name in IDIOMS:
        if f"{idiom.__name__}, {name}" in sys.argv[1:]:
            seen[f"{idiom.__name__}, {name}"] = train(strategy, idiom, name)
    reported = {"idioms": seen}
    if SIZE < 4:
        reported["estimators"] = {number: use_estimator(strategy, number) for number in (0, 2)}
        reported["increments"] = save_increments(strategy)
    report(reported)


if __name__ == "__main__":
    main()
