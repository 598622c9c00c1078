# SPDX-License-Identifier: Apache-2.0
"""How ranks make sure, in eager mode, that they make the same tables."""

import tensorflow as tf

from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tickets import begin_lookup


def agree_on_table(ranks, description):
    """Fails on all ranks, naming what differs, unless all make the same table now, in eager mode.

    Args:
      ranks: the Ranks.
      description: one line.

    Raises:
      tf.errors.InvalidArgumentError: they differ.
    """
    if ranks.size > 1:
        agree(tf.constant(description.encode()), tf.zeros([], tf.int64), seed_is_given=False)


def agree(signature, seed, seed_is_given):
    """(status, the seed of all ranks), which fail on all ranks, naming what differs, unless all
    have the same lines.

    Args:
      signature: a scalar string tensor, lines.
      seed: a scalar int64 tensor.
      seed_is_given: else it is rank 0's.
    """
    ticket = begin_lookup("sok.Init", op_name="SokInitTicket")
    return ops.sok_agree(signature, seed, ticket, seed_is_given=seed_is_given, name="SokInit")
