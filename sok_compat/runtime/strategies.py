# SPDX-License-Identifier: Apache-2.0
"""tf.distribute strategies, under which tables are not made."""

import tensorflow as tf


def raise_under_distribution_strategy(user):
    """Raises RuntimeError inside a tf.distribute strategy's scope; `user` is who asks."""
    if tf.distribute.has_strategy():
        raise RuntimeError(
            f"{user} was called under tf.distribute's "
            f"{type(tf.distribute.get_strategy()).__name__}; sok_compat spreads tables with "
            "Horovod: leave the strategy's scope and start the script with horovodrun"
        )
