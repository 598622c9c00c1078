# SPDX-License-Identifier: Apache-2.0
"""tf.train.ExponentialMovingAverage and tables: refused, since it cannot be right."""

import functools

import tensorflow as tf

from sok_compat.runtime import integrations
from sok_compat.tables.table import Table


def refuse_moving_averages_of_tables():
    """Makes every tf.train.ExponentialMovingAverage raise for tables, from now on.

    It averages a variable [capacity, dim] that starts as the table is then. A row whose key comes
    later would have an average that starts from zeros, not from the row, and nothing would say so.
    """
    integrations.apply("tf.train.ExponentialMovingAverage", _averaging_others)


def _averaging_others(apply):
    @functools.wraps(apply)
    def apply_to_others(self, var_list=None):
        var_list = tf.compat.v1.trainable_variables() if var_list is None else list(var_list)
        tables = [v for v in var_list if isinstance(v, Table)]
        if tables:
            raise NotImplementedError(
                "tf.train.ExponentialMovingAverage cannot average tables, got "
                f"{[table.table_name for table in tables]}: a row comes with its key, and its "
                "average would start from zeros. Average the other variables: "
                f"{tables[0].words.others}"
            )
        return apply(self, var_list)

    return apply_to_others
