# SPDX-License-Identifier: Apache-2.0
"""What `Init` settled for a graph, and how layers find it."""

import dataclasses

import tensorflow as tf

from sok_compat.runtime.ranks import Ranks
from sok_compat.runtime.strategies import raise_under_several_replicas

_COLLECTION = "SparseOperationKitInit"


@dataclasses.dataclass(frozen=True)
class Initialization:
    """One call of `Init`."""

    global_batch_size: int
    seed: int  # of all tables
    ranks: Ranks
    status: tf.Tensor  # what Init returned
    # Lines on which the ranks must agree, of tables and layers in the order in which they are made.
    tables: list[str] = dataclasses.field(default_factory=list)

    @property
    def name(self):
        """What stands for it in a meta graph; there it is not an Initialization any more."""
        return self.status.name


_eager_initialization = None


def set_initialization(initialization):
    """Makes `initialization` hold for the default graph; in eager mode, for graphs without one."""
    if tf.executing_eagerly():
        global _eager_initialization
        _eager_initialization = initialization
        return
    tf.compat.v1.get_collection_ref(_COLLECTION)[:] = [initialization]


def current_initialization(user):
    """What holds for the default graph.

    Args:
      user: who asks, for the message.

    Raises:
      RuntimeError: `Init` has not been called, or a tf.distribute strategy of several
        replicas is active.
    """
    raise_under_several_replicas(user)
    with tf.init_scope():  # inside a function: what holds where it was called
        in_graph = [] if tf.executing_eagerly() else tf.compat.v1.get_collection(_COLLECTION)
    if in_graph and isinstance(in_graph[0], Initialization):
        return in_graph[0]
    if _eager_initialization is None:
        raise RuntimeError(
            f"{user} needs sok.Init: call sok.Init(global_batch_size=...) first; in graph mode "
            "in this graph, and run what it returns in the session"
        )
    return _eager_initialization
