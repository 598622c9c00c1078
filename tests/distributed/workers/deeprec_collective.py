# SPDX-License-Identifier: Apache-2.0
"""One model in all the ways in which scripts for DeepRec train it on several ranks."""

import numpy as np

import sok_compat.deeprec as tf
from sok_compat.deeprec.python.distribute.group_embedding_collective_strategy import (
    CollectiveStrategy,
)
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config

tf.config.experimental.enable_distributed_strategy("collective")
import horovod.tensorflow as hvd  # noqa: E402 - as scripts do; the strategy has initialized it

GLOBAL_BATCH, STEPS, NUM_KEYS, DIMS = 8, 4, 12, (3, 2, 4)  # of two tables and an ordinary variable


def apply_clipped(optimizer, pairs):
    """Clips by the norm over all gradients, which is near 1; the norm is a tensor of the graph."""
    gradients, variables = zip(*pairs)
    clipped, norm = tf.clip_by_global_norm(gradients, 0.5)
    tf.identity(norm, name="norm")
    return optimizer.apply_gradients(zip(clipped, variables), tf.train.get_global_step())


def of_allreduced_loss(loss, optimizer):
    """The optimizer is not told of ranks."""
    return optimizer.minimize(hvd.allreduce(loss, op=hvd.Sum), tf.train.get_global_step())


def of_parts(loss, optimizer):
    """A sum of losses, some of them over ranks; clipped each by itself."""
    first, second = (hvd.allreduce(0.5 * loss, op=op) for op in (hvd.Sum, hvd.Average))
    penalty = 0.1 * tf.nn.l2_loss(tf.trainable_variables("weights")[0])
    pairs = optimizer.compute_gradients(tf.add_n([tf.identity(first), penalty]) + second)
    pairs = [(tf.clip_by_norm(gradient, 0.5), variable) for gradient, variable in pairs]
    return optimizer.apply_gradients(pairs, tf.train.get_global_step())


def of_scope(loss, optimizer):
    """Gradients that the optimizer has computed, clipped by a norm over all."""
    return apply_clipped(optimizer, optimizer.compute_gradients(loss))


def of_tf_gradients(loss, optimizer):
    """The same of tf.gradients."""
    variables = tf.trainable_variables()
    gradients = tf.gradients(hvd.allreduce(loss, op=hvd.Sum), variables)
    return apply_clipped(optimizer, zip(gradients, variables))


def of_plain_gradients(loss, optimizer):
    """Gradients that a function of TensorFlow's own has computed."""
    variables = tf.trainable_variables()
    gradients = tf.compat.v2.gradients(loss, variables)
    pairs = list(zip(gradients, variables))
    return optimizer.apply_gradients(pairs, tf.train.get_global_step())


def of_script(loss, optimizer):
    """Gradients that the script reduces once more."""
    pairs = [(hvd.allreduce(g), v) for g, v in optimizer.compute_gradients(loss)]
    return optimizer.apply_gradients(pairs, tf.train.get_global_step())


def of_wrapper(loss, optimizer):
    """Horovod's wrapper reduces, and the optimizer does not."""
    return hvd.DistributedOptimizer(optimizer).minimize(loss, tf.train.get_global_step())


IDIOMS = [
    (of_allreduced_loss, "GradientDescentOptimizer"),
    (of_allreduced_loss, "AdamOptimizer"),
    (of_parts, "GradientDescentOptimizer"),
    (of_scope, "GradientDescentOptimizer"),
    (of_scope, "AdagradOptimizer"),
    (of_tf_gradients, "GradientDescentOptimizer"),
    (of_plain_gradients, "GradientDescentOptimizer"),
    (of_script, "GradientDescentOptimizer"),
    (of_wrapper, "GradientDescentOptimizer"),
]


class Model:
    """Two tables and an ordinary variable looked up in a group, and dense variables."""

    def __init__(self):
        self.ids = tf.placeholder(tf.int64, [None, 2])
        self.labels = tf.placeholder(tf.float32, [None])
        bags = tf.RaggedTensor.from_tensor(self.ids, row_splits_dtype=tf.int64)
        self.tables = [tf.get_embedding_variable(f"t{i}", dim) for i, dim in enumerate(DIMS[:2])]
        values = np.linspace(-1, 1, NUM_KEYS * DIMS[2]).reshape(NUM_KEYS, -1)
        # Other values on each rank, until rank 0's are broadcast.
        ordinary = tf.get_variable(
            "ordinary", values.shape, initializer=tf.constant_initializer(values * (1 + RANK))
        )
        found = tf.nn.group_embedding_lookup_sparse(
            [*self.tables, ordinary], [bags] * 3, ["sum", "mean", "mean"]
        )
        weights = tf.get_variable(
            "weights", [sum(DIMS), 1], initializer=tf.constant_initializer(0.5 + RANK)
        )
        bias = tf.get_variable("bias", [], initializer=tf.constant_initializer(float(RANK)))
        logits = tf.squeeze(tf.concat(found, 1) @ weights, 1) + bias
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=self.labels, logits=logits)
        self.loss = 5.0 * tf.reduce_mean(losses)
        self.dense = [ordinary, weights, bias]


def train(strategy, idiom, optimizer_name):
    """{what: its values after the steps} on this rank."""
    rng = np.random.default_rng(1)
    with tf.Graph().as_default() as graph, strategy.scope(seed=7):
        step = tf.train.get_or_create_global_step()
        model = Model()
        train_op = idiom(model.loss, getattr(tf.train, optimizer_name)(0.3))
        exported = [table.export()[:2] for table in model.tables]
        names = [op.name for op in graph.get_operations() if op.name == "norm"]
        norms, losses = [graph.get_tensor_by_name(f"{name}:0") for name in names], []
        config = session_config(rewrites=False)
        with tf.train.MonitoredTrainingSession(
            is_chief=RANK == 0, config=config, save_summaries_steps=None
        ) as session:
            start = session.run(model.dense)
            for _ in range(STEPS):
                ids = rng.integers(0, NUM_KEYS, [GLOBAL_BATCH, 2])
                fed = {model.ids: ids[RANK::SIZE], model.labels: (ids.sum(1) % 2)[RANK::SIZE]}
                losses.append(session.run([model.loss, norms, train_op], fed)[:2])
            return {
                "start": start,
                "losses": [loss for loss, _ in losses],
                "norms": [norm for _, norm in losses],
                "dense": session.run(model.dense),
                "rows": [dict(zip(*session.run(pair))) for pair in exported],
                "step": session.run(step),
            }


def main():
    strategy = CollectiveStrategy()
    ranks = [strategy.rank, strategy.rank(), strategy.world_size, strategy.world_size()]
    assert ranks == [RANK, RANK, SIZE, SIZE]
    report({f"{idiom.__name__}, {name}": train(strategy, idiom, name) for idiom, name in IDIOMS})


if __name__ == "__main__":
    main()
