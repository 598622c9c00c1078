# SPDX-License-Identifier: Apache-2.0
"""The settings that `Init` made for a graph, and the way in which layers find them."""

from __future__ import annotations

import dataclasses
import logging

import tensorflow as tf

from sok_compat.checkpoint.loading.init_from_checkpoint import initialize_tables_from_checkpoints
from sok_compat.checkpoint.saver.tf_saver import save_tables_in_checkpoints
from sok_compat.ranks.identity import Ranks
from sok_compat.runtime.strategies import raise_under_several_replicas

_logger = logging.getLogger(__name__)
_COLLECTION = "SparseOperationKitInit"


@dataclasses.dataclass(frozen=True)
class Initialization:
    """One call of `Init`."""

    global_batch_size: int
    seed: int  # of all tables
    given_seed: int | None
    ranks: Ranks
    status: tf.Tensor  # the result of Init
    # Lines that must be the same on all ranks, of tables and layers in the order of their making.
    tables: list[str] = dataclasses.field(default_factory=list)

    @property
    def name(self) -> str:
        """The name that stands for it in a meta graph, which does not hold the object itself."""
        return self.status.name


def tell_tensorflow_of_tables() -> None:
    """Makes TensorFlow's savers and initializers from checkpoints handle tables."""
    save_tables_in_checkpoints()
    initialize_tables_from_checkpoints()


_eager_initialization: Initialization | None = None


def set_initialization(initialization: Initialization) -> None:
    """Sets the initialization of the default graph; in eager mode, of all graphs without one."""
    global _eager_initialization
    if tf.executing_eagerly():
        before, _eager_initialization = [_eager_initialization], initialization
    else:
        of_graph = tf.compat.v1.get_collection_ref(_COLLECTION)
        before, of_graph[:] = [*of_graph], [initialization]
    if before and isinstance(before[0], Initialization):
        _warn_of_other_settings(before[0], initialization)


def _warn_of_other_settings(before: Initialization, now: Initialization) -> None:
    changed = [
        f"{name}={new!r} (before: {old!r})"
        for name, old, new in (
            ("global_batch_size", before.global_batch_size, now.global_batch_size),
            ("seed", before.given_seed, now.given_seed),
        )
        if old != new
    ]
    if changed:
        _logger.warning(
            "sok.Init was called again with %s: this holds for tables made from now on",
            " and ".join(changed),
        )


def current_initialization(user: str) -> Initialization:
    """Returns the initialization of the default graph.

    Raises:
      RuntimeError: `Init` has not been called, or a tf.distribute strategy of several
        replicas is active.
    """
    raise_under_several_replicas(user)
    with tf.init_scope():  # in a function: the initialization at its call
        in_graph = [] if tf.executing_eagerly() else tf.compat.v1.get_collection(_COLLECTION)
    if in_graph and isinstance(in_graph[0], Initialization):
        return in_graph[0]
    if _eager_initialization is None:
        raise RuntimeError(
            f"{user} needs sok.Init: call sok.Init(global_batch_size=...) first; in graph mode "
            "in this graph, and run what it returns in the session"
        )
    return _eager_initialization
