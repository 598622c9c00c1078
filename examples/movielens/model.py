# SPDX-License-Identifier: Apache-2.0
"""Biases and the dot product of a user's and an item's vector, all from two kinds of SOK layers."""

import tensorflow as tf

import sok_compat as sok
from examples.movielens import features

_CAPACITY = 1 << 24  # rows of a table; a limit: memory comes with the keys

_NUM_USER_FEATURES = len(features.USER_FEATURES)


class RatingModel:
    """The rating of a user for an item.

    rating = mean + sum of all biases + <user vector, item vector>, where
      user vector = rows of the user, age, gender, occupation + mean row of the other rated items,
      item vector = rows of the item and its year + mean row of its genres.

    A row holds a bias and a vector: column 0 and the others.
    """

    def __init__(self, mean_rating, dim, most_items, most_genres):
        """`most_items`, `most_genres`: most keys in a bag of either kind."""
        self._mean_rating = mean_rating
        row = dict(max_vocabulary_size_per_gpu=_CAPACITY, embedding_vec_size=1 + dim)
        self._singles = sok.All2AllDenseEmbedding(
            slot_num=len(features.SINGLE_FEATURES), nnz_per_slot=1, **row
        )
        self._other_items = sok.DistributedEmbedding(
            combiner="mean", slot_num=1, max_nnz=most_items, **row
        )
        self._genres = sok.DistributedEmbedding(
            combiner="mean", slot_num=1, max_nnz=most_genres, **row
        )

    def __call__(self, singles, other_items, genres, training):
        """The ratings [n], and all rows that made them [n, features, 1 + dim].

        Args:
          singles: int64 [n, len(SINGLE_FEATURES)].
          other_items: SparseTensor of int64 [n, any], a bag for each rating; may be empty.
          genres: as other_items.
          training: Python bool; only training makes rows for unknown keys.
        """
        singles = tf.squeeze(self._singles(singles[:, :, tf.newaxis], training=training), axis=2)
        rows_of_user = tf.concat(
            [singles[:, :_NUM_USER_FEATURES], self._other_items(other_items, training=training)],
            axis=1,
        )
        rows_of_item = tf.concat(
            [singles[:, _NUM_USER_FEATURES:], self._genres(genres, training=training)], axis=1
        )
        rows = tf.concat([rows_of_user, rows_of_item], axis=1)
        biases = tf.reduce_sum(rows[:, :, 0], axis=1)
        user_vector, item_vector = (
            tf.reduce_sum(part[:, :, 1:], axis=1) for part in (rows_of_user, rows_of_item)
        )
        return self._mean_rating + biases + tf.reduce_sum(user_vector * item_vector, axis=1), rows


def loss(predictions, rows, ratings, options):
    """Squared error and penalty, summed over the ratings [n], by the constant batch size."""
    squares = tf.reduce_sum((predictions - ratings) ** 2)
    penalty = options.bias_penalty * tf.reduce_sum(rows[:, :, 0] ** 2)
    penalty += options.vector_penalty * tf.reduce_sum(rows[:, :, 1:] ** 2)
    return (squares + penalty) / options.batch_size
