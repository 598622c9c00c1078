# SPDX-License-Identifier: Apache-2.0
"""Which optimizer updates which variables, written as a SOK script writes it."""

import tensorflow as tf

tf1 = tf.compat.v1

_INITIAL_SQUARES = 1e-8  # of Adagrad


def _make_adagrad(learning_rate):
    # TensorFlow's default of 0.1 would drown the squares of these gradients: of a mean loss, each
    # row's is about 1 / global_batch_size.
    return tf1.train.AdagradOptimizer(learning_rate, initial_accumulator_value=_INITIAL_SQUARES)


def _make_lazy_adam(learning_rate):
    import sok_compat as sok  # here, so that --backend plain runs without it

    return sok.tf.keras.optimizers.LazyAdamOptimizer(learning_rate)


EMBEDDING_OPTIMIZERS = {  # of settings.OPTIMIZERS
    "sgd": tf1.train.GradientDescentOptimizer,
    "adagrad": _make_adagrad,
    "adam": tf1.train.AdamOptimizer,  # every row moves in every step
    "lazyadam": _make_lazy_adam,  # only the rows of the batch move
}


def training_op(loss, embedding, options, ranks):
    """One op that applies the gradients of `loss` to all trainable variables.

    `loss` is the sum over this rank's samples divided by the global batch size. All gradients are
    then sums over ranks: SOK adds up those of embedding rows on its own, the others are added up
    here. Variables that are not a SOK table start equal on all ranks, by their seeds, and stay so.
    """
    embedding_variables, others = embedding.split(tf1.trainable_variables())
    gradients = tf.gradients(loss, embedding_variables + others)
    embedding_gradients = gradients[: len(embedding_variables)]
    if not embedding.sums_over_ranks:
        embedding_gradients = ranks.sum(embedding_gradients)
    other_gradients = ranks.sum(gradients[len(embedding_variables) :])
    embedding_optimizer = EMBEDDING_OPTIMIZERS[options.optimizer](options.learning_rate)
    with embedding.optimizer_scope(embedding_variables):
        embedding_step = embedding_optimizer.apply_gradients(
            zip(embedding_gradients, embedding_variables)
        )
    dense_optimizer = tf1.train.AdamOptimizer(options.dense_learning_rate)
    dense_step = dense_optimizer.apply_gradients(
        zip(other_gradients, others), global_step=tf1.train.get_or_create_global_step()
    )
    return tf.group(embedding_step, dense_step)
