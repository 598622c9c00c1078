# SPDX-License-Identifier: Apache-2.0
"""`CollectiveStrategy`: the strategy 'collective' of distributed_strategy.py as an object."""

import contextlib
import random

import numpy as np
import tensorflow.compat.v1 as tf

from sok_compat.deeprec.collective.distributed_strategy import (
    enable_distributed_strategy,
)
from sok_compat.deeprec.collective.estimators_of_ranks import make_estimator
from sok_compat.deeprec.collective.exported_models import export_saved_model
from sok_compat.ranks.identity import current_ranks
from sok_compat.runtime.settings import COLLECTIVE_STRATEGY


class CollectiveStrategy:
    """Several processes that train as one; each has a device. API of DeepRec.

    Optimizers, sessions and losses are those of the strategy 'collective', from here on, inside
    scope() and outside: see distributed_strategy.py, also for what differs from DeepRec.
    """

    def __init__(self, differentiate_sums=False):
        """Calls hvd.init(), on all ranks.

        The environment variable COLLECTIVE_STRATEGY may be 'sok' (the default) or 'hb'; both are
        this package.

        Args:
          differentiate_sums: as of enable_distributed_strategy.

        Raises:
          ValueError: the variable is something else.
          ImportError, RuntimeError: as enable_distributed_strategy.
        """
        COLLECTIVE_STRATEGY.value()
        enable_distributed_strategy("collective", differentiate_sums)

    @contextlib.contextmanager
    def scope(self, *args, seed=None, **kwargs):
        """A context to build the model, and open its session, in.

        Args:
          seed: for Python, NumPy and TensorFlow; None: none is set.
          *args, **kwargs: ignored.
        """
        del args, kwargs
        if seed is not None:
            random.seed(seed)
            np.random.seed(seed % 2**32)
            tf.set_random_seed(seed)
        yield self

    embedding_scope = scope  # embedding variables are spread over ranks wherever they are made

    def estimator(self, model_fn, *args, **kwargs):
        """A tf.estimator.Estimator that trains on all ranks: see estimators_of_ranks.py."""
        return make_estimator(model_fn, *args, **kwargs)

    export_saved_model = staticmethod(export_saved_model)

    @property
    def world_size(self):
        """The number of ranks, an int; world_size() is the same."""
        return _Number(current_ranks().size)

    @property
    def rank(self):
        """The number of this one, an int; rank() is the same."""
        return _Number(current_ranks().rank)


class _Number(int):
    """Also a function that gives it: scripts have it with and without parentheses."""

    def __call__(self):
        return int(self)
