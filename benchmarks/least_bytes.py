# SPDX-License-Identifier: Apache-2.0
"""What a lookup on several ranks cannot but send."""

import numpy as np

_KEY_BYTES = 8
_PLACE_BYTES = 2


def least_bytes(bags, dim, rank, num_ranks, is_pooled, float_bytes=4):
    """Bytes between ranks that one rank's share of a step costs, with its gradients.

    Each distinct key goes to its owner, if that is another rank. Then its row comes and its
    gradient goes; or, where that is fewer bytes, the sum of each bag's rows and its gradient do,
    and two bytes for each row of a sum and for their number say which ones it is made of. Keys
    that two ranks ask for are not shared between them.

    Args:
      bags: int64 [num_bags, keys of a bag], the rank's share.
      dim: floats of a row.
      rank: the one that asks.
      num_ranks: how many there are.
      is_pooled: whether the lookup adds up the rows of a bag.
      float_bytes: of a number of a row or a gradient, as it travels.
    """
    vector_bytes = 2 * dim * float_bytes
    owners = bags % num_ranks
    total = 0
    for owner in set(range(num_ranks)) - {rank}:
        num_keys = len(np.unique(bags[owners == owner]))
        as_rows = num_keys * vector_bytes
        rows_of_bags = np.count_nonzero(owners == owner, axis=1)
        num_sums = np.count_nonzero(rows_of_bags)
        as_sums = num_sums * vector_bytes + (num_sums + rows_of_bags.sum()) * _PLACE_BYTES
        total += num_keys * _KEY_BYTES + (min(as_rows, as_sums) if is_pooled else as_rows)
    return int(total)
