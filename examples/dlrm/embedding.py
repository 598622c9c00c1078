# SPDX-License-Identifier: Apache-2.0
"""The one place where SOK layers and plain TensorFlow variables differ.

Both classes map keys [batch, 26] to vectors [batch, 26, dim] and know which variables hold them and
how an optimizer may update them; the model and the training loop are the same for both.
"""

import contextlib

import tensorflow as tf

from examples.dlrm import criteo

tf1 = tf.compat.v1

_INITIAL_RANGE = 0.05  # of a uniform distribution; what SOK's default initializer draws, too


def make_embedding(options):
    """The embedding of a run; `options` is a settings.ModelOptions."""
    if options.backend == "plain":
        return PlainEmbedding(options)
    return SokEmbedding(options)


class SokEmbedding:
    """One SOK table for all 26 features: they have distinct keys."""

    sums_over_ranks = True  # whether gradients come as sums over all ranks

    def __init__(self, options):
        import sok_compat as sok  # here, so that --backend plain runs without it

        self._sok = sok
        # Must be the first thing that the session runs.
        self.session_init = sok.Init(global_batch_size=options.global_batch_size, seed=options.seed)
        table = {
            "max_vocabulary_size_per_gpu": options.rows,
            "embedding_vec_size": options.dim,
            "slot_num": criteo.NUM_CATEGORICAL,
        }
        self._is_sparse = options.layer == "distributed"
        if self._is_sparse:
            self._layer = sok.DistributedEmbedding(combiner="sum", max_nnz=1, **table)
        else:
            self._layer = sok.All2AllDenseEmbedding(nnz_per_slot=1, **table)

    def __call__(self, keys, training):
        """keys [batch, 26] -> [batch, 26, dim]; only training makes rows for unknown keys."""
        if self._is_sparse:
            return self._layer(_one_key_per_bag(keys), training=training)
        vectors = self._layer(tf.expand_dims(keys, 2), training=training)
        return tf.squeeze(vectors, axis=2)

    def split(self, variables):
        """(embedding variables, other variables)."""
        return self._sok.split_embedding_variable_from_others(variables)

    def optimizer_scope(self, variables):
        """The context in which a stock optimizer may be applied to embedding variables."""
        return self._sok.OptimizerScope(variables)


class PlainEmbedding:
    """One ordinary variable; a key's row is `key mod rows`, so that keys may share a row."""

    session_init = None
    sums_over_ranks = False

    def __init__(self, options):
        self._rows = options.rows
        self._variable = tf1.get_variable(
            "embedding",
            [options.rows, options.dim],
            use_resource=True,
            initializer=tf1.random_uniform_initializer(
                -_INITIAL_RANGE, _INITIAL_RANGE, seed=options.seed
            ),
        )

    def __call__(self, keys, training):
        """As in SokEmbedding; `training` makes no difference, every key has a row."""
        del training
        return tf.nn.embedding_lookup(self._variable, tf.math.floormod(keys, self._rows))

    def split(self, variables):
        """(embedding variables, other variables)."""
        return [self._variable], [v for v in variables if v is not self._variable]

    def optimizer_scope(self, variables):
        """Ordinary variables need none."""
        del variables
        return contextlib.nullcontext()


def _one_key_per_bag(keys):
    """[batch, slots] -> SparseTensor [batch * slots, 1], the layout of DistributedEmbedding."""
    values = tf.reshape(keys, [-1])
    num_bags = tf.size(values, out_type=tf.int64)
    bags = tf.range(num_bags)
    return tf.SparseTensor(
        indices=tf.stack([bags, tf.zeros_like(bags)], axis=1),
        values=values,
        dense_shape=tf.stack([num_bags, tf.constant(1, tf.int64)]),
    )
