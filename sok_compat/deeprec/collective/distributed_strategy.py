# SPDX-License-Identifier: Apache-2.0
"""`config.experimental.enable_distributed_strategy`: how several processes train together.

With 'collective', N processes train like one process on their joined batches, if all batches have
the same size and each loss is a mean, over the samples of its rank or of all ranks:

- An embedding variable is one table shared by all ranks, as wherever Horovod is initialized.
- Optimizers of `tf.train`, and `tf.gradients` of variables, average gradients over ranks;
  gradients of ordinary variables go through Horovod (gradient_averages.py).
  hvd.DistributedOptimizer does the same.
- Gradients are those of the mean loss over ranks, also through Horovod's collectives
  (ranks/horovod/losses.py): `loss` and `hvd.allreduce(loss)` train alike. hvd.Sum inside a loss
  raises without `differentiate_sums`.
- `tf.train.MonitoredTrainingSession` starts all ranks from the variables of rank 0
  (sessions_of_ranks.py).

In DeepRec the scale depends on the number of ranks: an allreduced loss with a plain optimizer gives
embedding variables N * N times the gradient of the mean, and lets ordinary variables drift apart;
CollectiveStrategy.scope() multiplies learning rates by N. A script tuned there for N ranks has to
multiply its own learning rate here.
"""

from __future__ import annotations

from sok_compat.ranks.current_job import start_job
from sok_compat.ranks.horovod.losses import train_as_one
from sok_compat.ranks.identity import current_ranks
from sok_compat.runtime import integrations
from sok_compat.tables.known_tables import connected_ranks

_STRATEGIES = ("collective", "localized")
_enabled = "localized"
_WAY_OUT_OF_SUMS = (
    "pass differentiate_sums=True to tf.config.experimental.enable_distributed_strategy or "
    "CollectiveStrategy, whichever is called last"
)


def enable_distributed_strategy(
    strategy: str = "collective", differentiate_sums: bool = False
) -> None:
    """Chooses how processes train together. Call it before building the graph. API of DeepRec.

    Args:
      strategy: 'collective': the processes that Horovod started train together; calls hvd.init(),
        so all ranks have to call this. Without Horovod, one process trains. 'localized': does
        nothing.
      differentiate_sums: whether collectives with op=hvd.Sum have a gradient on several ranks;
        if not, `tf.gradients` and optimizers raise ValueError for a loss that contains one. The
        last call counts. DeepRec has no such argument.

    Raises:
      ValueError: unknown strategy.
      ImportError: 'collective', and Horovod cannot be imported or initialized.
      RuntimeError: another rank does not call this.
    """
    global _enabled
    if strategy == "parameter_server":
        raise ValueError(
            "the strategy 'parameter_server' is not supported: embedding variables are sharded "
            "over the processes that train; use 'collective'"
        )
    if strategy not in _STRATEGIES:
        raise ValueError(f"strategy must be 'collective' or 'localized', got {strategy!r}")
    if strategy == "collective":
        connect("enable_distributed_strategy")
        train_as_one(is_collective, None if differentiate_sums else _WAY_OUT_OF_SUMS)
    _enabled = strategy


def enable_group_embedding(
    fusion_type: str = "collective", differentiate_sums: bool = False
) -> None:
    """The older name of `enable_distributed_strategy`. API of DeepRec.

    Args:
      fusion_type, differentiate_sums: see its strategy and differentiate_sums.
    """
    enable_distributed_strategy(fusion_type, differentiate_sums)


def connect(user: str) -> None:
    """Initializes Horovod, waits for all ranks, and adapts Horovod's helpers to tables.

    Raises:
      ImportError, RuntimeError: as enable_distributed_strategy.
    """
    if start_job(user).is_initialized:
        connected_ranks(user)
        integrations.expect_tables()  # losses over ranks may be built before the first table


def is_collective_enabled() -> bool:
    """Whether the strategy 'collective' is enabled, also for a single process."""
    return _enabled == "collective"


def is_collective() -> bool:
    """Whether several processes train together under the strategy 'collective'."""
    return is_collective_enabled() and current_ranks().size > 1
