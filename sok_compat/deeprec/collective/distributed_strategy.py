# SPDX-License-Identifier: Apache-2.0
"""`config.experimental.enable_distributed_strategy`: what several processes have in common.

With 'collective', N processes train as one that is fed their batches together, where the loss of
each is a mean over its samples, or over the samples of all ranks, and all have as many:

- Embedding variables are one table for all ranks, as wherever Horovod is initialized.
- Optimizers of `tf.train`, and `tf.gradients` of variables, average gradients over ranks, those of
  ordinary variables by Horovod (gradient_averages.py). hvd.DistributedOptimizer does the same.
- A gradient is that of the mean over ranks of the losses, through Horovod's collectives as well
  (horovod_losses.py): `loss` and `hvd.allreduce(loss)` train alike. hvd.Sum inside a loss raises
  without `differentiate_sums`.
- `tf.train.MonitoredTrainingSession` starts all ranks from the variables of rank 0
  (sessions_of_ranks.py).

In DeepRec the scale depends on the number of ranks: an allreduced loss with a plain optimizer gives
embedding variables N * N times the gradient of the mean, and leaves ordinary variables to drift
apart; CollectiveStrategy.scope() multiplies learning rates by N. A script that was tuned there for
N ranks multiplies its own learning rate.
"""

from sok_compat.ranks.horovod.communicator import start_horovod
from sok_compat.ranks.horovod.losses import train_as_one
from sok_compat.ranks.identity import current_ranks
from sok_compat.runtime import integrations
from sok_compat.tables.table import connected_ranks

_STRATEGIES = ("collective", "localized")
_enabled = "localized"
_WAY_OUT_OF_SUMS = (
    "give differentiate_sums=True to tf.config.experimental.enable_distributed_strategy or "
    "CollectiveStrategy, whichever is called last"
)


def enable_distributed_strategy(strategy="collective", differentiate_sums=False):
    """Chooses how processes train together; before the graph is built. API of DeepRec.

    Args:
      strategy: 'collective': as the processes that Horovod started, or as one without Horovod.
        hvd.init() is called; all ranks have to come here. 'localized': nothing is done.
      differentiate_sums: whether a collective that reduces by op=hvd.Sum has a gradient, that of
        the sum, on several ranks; else `tf.gradients` and optimizers raise ValueError where one is
        inside a loss. The last call counts. DeepRec has no such argument.

    Raises:
      ValueError: another strategy.
      ImportError: 'collective', and Horovod cannot be imported or initialized.
      RuntimeError: another rank does not come here.
    """
    global _enabled
    if strategy == "parameter_server":
        raise ValueError(
            "the strategy 'parameter_server' is not supported: an embedding variable is spread "
            "over the processes that train; take 'collective'"
        )
    if strategy not in _STRATEGIES:
        raise ValueError(f"strategy must be 'collective' or 'localized', got {strategy!r}")
    if strategy == "collective":
        connect("enable_distributed_strategy")
        train_as_one(is_collective, None if differentiate_sums else _WAY_OUT_OF_SUMS)
    _enabled = strategy


def enable_group_embedding(fusion_type="collective", differentiate_sums=False):
    """`enable_distributed_strategy`, by its older name."""
    enable_distributed_strategy(fusion_type, differentiate_sums)


def connect(user):
    """Initializes Horovod, waits for all ranks, and makes its helpers know of tables.

    Args:
      user: what calls this, for messages.

    Raises:
      ImportError, RuntimeError: as enable_distributed_strategy.
    """
    if start_horovod(user) is not None:
        connected_ranks(user)
        integrations.expect_tables()  # losses over ranks may be built before the first table


def is_collective():
    """Whether several processes train together, by the strategy 'collective'."""
    return _enabled == "collective" and current_ranks().size > 1


NAMES = {
    "config.experimental.enable_distributed_strategy": enable_distributed_strategy,
    "config.experimental.enable_group_embedding": enable_group_embedding,
}
