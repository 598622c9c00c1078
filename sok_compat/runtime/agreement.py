# SPDX-License-Identifier: Apache-2.0
"""How ranks make sure, in eager mode, that they make the same tables."""

import tensorflow as tf

from sok_compat.runtime.op_library import ops


def agree_on_table(ranks, description):
    """Fails on all ranks, naming what differs, unless all make the same table now, in eager mode.

    Args:
      ranks: the Ranks.
      description: one line.

    Raises:
      tf.errors.InvalidArgumentError: they differ.
    """
    if ranks.size > 1:
        no_seed = tf.zeros([], tf.int64)
        ops.sok_agree(
            tf.constant(description.encode()), no_seed, seed_is_given=False, is_eager=True
        )
