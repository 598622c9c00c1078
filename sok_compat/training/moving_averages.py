# SPDX-License-Identifier: Apache-2.0
"""tf.train.ExponentialMovingAverage and tables: refused, since it cannot be right."""

import functools

import tensorflow as tf

from sok_compat.tables.table import EmbeddingVariable


def refuse_moving_averages_of_tables():
    """Makes every tf.train.ExponentialMovingAverage raise for tables, from now on.

    It averages a variable [capacity, dim] that starts as the table is then. A row whose key comes
    later would have an average that starts from zeros, not from the row, and nothing would say so.
    """
    apply = tf.train.ExponentialMovingAverage.apply
    if getattr(apply, "knows_tables", False):
        return

    @functools.wraps(apply)
    def apply_to_others(self, var_list=None):
        var_list = tf.compat.v1.trainable_variables() if var_list is None else list(var_list)
        tables = [v.m_var_name for v in var_list if isinstance(v, EmbeddingVariable)]
        if tables:
            raise NotImplementedError(
                f"tf.train.ExponentialMovingAverage cannot average tables, got {tables}: a row "
                "comes with its key, and its average would start from zeros. Average the other "
                "variables: apply(sok.split_embedding_variable_from_others(variables)[1])"
            )
        return apply(self, var_list)

    apply_to_others.knows_tables = True
    tf.train.ExponentialMovingAverage.apply = apply_to_others
