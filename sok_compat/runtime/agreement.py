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
        agree(tf.constant(description.encode()))


def agree(signature):
    """A scalar string tensor, b"OK", which fails on all ranks, naming what differs, unless all have
    the same lines.

    Args:
      signature: a scalar string tensor, lines.
    """
    ticket = begin_lookup("sok.Init", op_name="SokInitTicket")
    return ops.sok_agree(signature, ticket, name="SokInit")
