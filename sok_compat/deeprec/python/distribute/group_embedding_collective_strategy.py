# SPDX-License-Identifier: Apache-2.0
"""`CollectiveStrategy`: the strategy 'collective' of distributed_strategy.py as an object."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from sok_compat.deeprec.collective.distributed_strategy import (
    enable_distributed_strategy,
)
from sok_compat.deeprec.collective.estimators_of_ranks import make_estimator
from sok_compat.deeprec.collective.exported_models import export_saved_model
from sok_compat.ranks.identity import current_ranks


class CollectiveStrategy:
    """Trains several processes, each with one device, as one. API of DeepRec.

    Creating it enables the strategy 'collective' for optimizers, sessions and losses, inside
    scope() and outside. See distributed_strategy.py, also for differences from DeepRec.
    """

    def __init__(self, differentiate_sums: bool = False) -> None:
        """Calls hvd.init(); all ranks have to create one.

        Args:
          differentiate_sums: as for enable_distributed_strategy.

        Raises:
          ImportError, RuntimeError: as enable_distributed_strategy.
        """
        enable_distributed_strategy("collective", differentiate_sums)

    @contextlib.contextmanager
    def scope(
        self, *args: Any, seed: int | None = None, **kwargs: Any
    ) -> Iterator[CollectiveStrategy]:
        """A context in which to build the model and open its session.

        Args:
          seed: for Python, NumPy and TensorFlow; None: sets no seed.
          *args: ignored.
          **kwargs: ignored.
        """
        del args, kwargs
        if seed is not None:
            random.seed(seed)
            np.random.seed(seed % 2**32)
            tf.set_random_seed(seed)
        yield self

    embedding_scope = scope  # embedding variables are sharded over ranks wherever they are made

    def estimator(
        self, model_fn: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> tf.estimator.Estimator:
        """A tf.estimator.Estimator that trains on all ranks: see estimators_of_ranks.py."""
        return make_estimator(model_fn, *args, **kwargs)

    export_saved_model = staticmethod(export_saved_model)

    @property
    def world_size(self) -> _Number:
        """The number of ranks, an int; world_size() is the same."""
        return _Number(current_ranks().size)

    @property
    def rank(self) -> _Number:
        """The number of this rank, an int; rank() is the same."""
        return _Number(current_ranks().rank)


class _Number(int):
    """An int that returns itself when called: scripts use both forms."""

    def __call__(self) -> int:
        return int(self)
