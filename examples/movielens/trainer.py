# SPDX-License-Identifier: Apache-2.0
"""One model in one graph and one session: epochs of training, and predictions."""

import numpy as np
import tensorflow as tf

import sok_compat as sok
from examples.movielens import baseline, model

tf1 = tf.compat.v1

_RATINGS_PER_PREDICTION = 4096


class Trainer:
    """Trains on reader.Ratings, whose keys come from a features.Features."""

    def __init__(self, options, features, training, seed):
        self.options = options
        self._features = features
        self._training = training
        self._random = np.random.default_rng(seed)
        self._epoch = 0
        self.graph = tf.Graph()
        with self.graph.as_default():
            session_init = sok.Init(global_batch_size=options.batch_size, seed=seed)
            self._build()
            initialize = tf1.global_variables_initializer()
        self._session = tf1.Session(graph=self.graph)
        self._session.run(session_init)
        self._session.run(initialize)

    def _build(self):
        rating_model = model.RatingModel(
            float(self._training.values.mean(dtype=np.float64)),
            self.options.dim,
            *self._features.limits(),
        )
        self._singles = tf1.placeholder(tf.int64, [None, None])
        self._bags = [tf1.sparse_placeholder(tf.int64, [None, None]) for _ in range(2)]
        self._ratings = tf1.placeholder(tf.float32, [None])
        self._learning_rate = tf1.placeholder(tf.float32, [])
        inputs = (self._singles, *self._bags)
        self._fitted, rows = rating_model(*inputs, training=True)
        self._predicted, _ = rating_model(*inputs, training=False)
        # All that is trained lies in tables: there are no other variables.
        tables, _ = sok.split_embedding_variable_from_others(tf1.trainable_variables())
        gradients = tf.gradients(
            model.loss(self._fitted, rows, self._ratings, self.options), tables
        )
        optimizer = sok.tf.keras.optimizers.LazyAdamOptimizer(self._learning_rate)
        self._step = optimizer.apply_gradients(zip(gradients, tables))

    def train_epoch(self):
        """One pass in random order; yields (ratings in the step, RMSE before it) of each step."""
        rate = self.options.learning_rate * self.options.learning_rate_decay**self._epoch
        self._epoch += 1
        order = self._random.permutation(len(self._training))
        for start in range(0, len(order), self.options.batch_size):
            batch = self._training.take(order[start : start + self.options.batch_size])
            feed = {self._ratings: batch.values, self._learning_rate: rate}
            fitted, _ = self._session.run(
                [self._fitted, self._step], {**feed, **self._feed_of(batch)}
            )
            yield len(batch), baseline.rmse(fitted, batch.values)

    def predict(self, ratings):
        """float32 [n], in [1, 5]."""
        starts = range(0, len(ratings), _RATINGS_PER_PREDICTION)
        parts = [ratings.take(slice(start, start + _RATINGS_PER_PREDICTION)) for start in starts]
        predictions = [self._session.run(self._predicted, self._feed_of(part)) for part in parts]
        return baseline.clipped(np.concatenate(predictions))

    def _feed_of(self, ratings):
        batch = self._features.batch(ratings)
        bags = (batch.other_items, batch.genres)
        return {self._singles: batch.singles, **dict(zip(self._bags, map(_sparse_value, bags)))}

    def close(self):
        """Frees the session."""
        self._session.close()


def _sparse_value(bags):
    """[number of bags, most keys in a bag], the form that DistributedEmbedding takes."""
    rows = bags.rows()
    columns = np.arange(len(rows)) - bags.splits[rows]
    return tf1.SparseTensorValue(
        np.stack([rows, columns], axis=1), bags.keys, [len(bags.splits) - 1, bags.largest()]
    )
