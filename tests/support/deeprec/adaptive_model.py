# SPDX-License-Identifier: Apache-2.0
"""What an adaptive column computes, in numpy."""

import numpy as np
import tensorflow as tf

_DIVISORS = {"sum": lambda n: 1.0, "mean": float, "sqrtn": np.sqrt}


class AdaptiveModel:
    """The ordinary rows [buckets, dim], and {key: row} of the embedding variable."""

    def __init__(self, ordinary, dtype, combiner, optimizer, rate):
        self.ordinary, self.rows = ordinary.copy(), {}
        self._dtype, self._divisor, self._rate = dtype, _DIVISORS[combiner], rate
        self._has_squares = optimizer == "AdagradOptimizer"
        self._squares = {}

    def read(self, bags, mask):
        """[bags, dim]; the mask has an entry for each id."""
        places = self._places(bags, mask)
        return np.stack([self._pooled(bag) for bag in places])

    def train(self, bags, mask, gradients):
        """A step with the gradients [bags, dim] of what `read` gives."""
        total = {}
        for bag, gradient in zip(self._places(bags, mask), gradients):
            for kind, key, bucket in bag:
                if kind == "key" and key not in self.rows:
                    self.rows[key] = self.ordinary[bucket].copy()
                place = (kind, key if kind == "key" else bucket)
                total[place] = total.get(place, 0.0) + gradient / self._divisor(len(bag))
        for place, gradient in total.items():
            if self._has_squares:
                self._squares[place] = self._squares.get(place, 0.1) + gradient**2
                gradient = gradient / np.sqrt(self._squares[place])
            rows = self.rows if place[0] == "key" else self.ordinary
            rows[place[1]] = rows[place[1]] - self._rate * gradient

    def _pooled(self, bag):
        rows = [
            self.rows[key] if kind == "key" and key in self.rows else self.ordinary[bucket]
            for kind, key, bucket in bag
        ]
        return np.sum(rows, axis=0) / self._divisor(len(bag)) if bag else 0 * self.ordinary[0]

    def _places(self, bags, mask):
        """For each bag a list of ("key" or "bucket", key, bucket)."""
        entries = iter(mask)
        return [[(("bucket", "key")[next(entries)], *self._found(x)) for x in bag] for bag in bags]

    def _found(self, value):
        """(key, bucket)"""
        is_string = self._dtype == tf.string
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            words = tf.constant(value if is_string else str(value))
            bucket = tf.strings.to_hash_bucket_fast(words, len(self.ordinary))
            key = tf.strings.to_hash_bucket_fast(words, tf.int64.max)
            key, bucket = session.run([key, bucket])
        return (key if is_string else value), bucket
