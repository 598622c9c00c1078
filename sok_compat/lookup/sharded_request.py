# SPDX-License-Identifier: Apache-2.0
"""`ShardedRequest`: what ranks ask of this one in a group's lookup, and it of them."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class ShardedRequest(NamedTuple):
    """The outputs of SokExchangeKeys, a list each, and the collective of later exchanges."""

    requested_keys: list
    requested_places: list
    requested_splits: list
    requested_weights: list
    requested_counts: list
    replies: list
    reply_splits: list  # empty: replies are not pooled
    reply_weights: list
    reply_counts: list
    factors: list
    collective: tf.Tensor
