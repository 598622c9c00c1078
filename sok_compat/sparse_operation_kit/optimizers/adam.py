# SPDX-License-Identifier: Apache-2.0
"""`sok.optimizers.Adam`: the plugin Adam, for tables only."""

from __future__ import annotations

import logging
from typing import Any

from sok_compat.runtime.known_words import OPTIMIZER_WORDS, checks_words
from sok_compat.sparse_operation_kit.optimizers.optimizer import Optimizer
from sok_compat.sparse_operation_kit.tf.keras.optimizers.adam import Adam as KerasAdam

_logger = logging.getLogger(__name__)


class Adam(Optimizer, KerasAdam):
    """Adam on tables, with the numbers of Keras Adam. API of SparseOperationKit 1.x.

    All rows in use decay and move in every step, even those without a gradient, so the cost of a
    step is proportional to the rows in use. Needs no OptimizerScope. sok.Saver does not save its
    states.
    """

    @checks_words(("lr", *OPTIMIZER_WORDS))
    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float | None = 1e-7,
        name: str = "Plugin_Adam",
        **kwargs: Any,
    ) -> None:
        """Makes the optimizer.

        Args:
          learning_rate: a number, a Keras schedule, a callable or a tensor; also as lr=.
          beta_1: decay of the first moment.
          beta_2: decay of the second moment.
          epsilon: added to the root of the second moment; falsy: Keras's epsilon.
          name: name of the optimizer.
          **kwargs: Keras's others (clipnorm, decay, ...) are logged and ignored, as in
            SparseOperationKit.

        Raises:
          TypeError: an argument that Keras's optimizers do not have.
        """
        learning_rate = kwargs.pop("lr", learning_rate)
        if kwargs:
            _logger.warning("sok.optimizers.Adam ignores the arguments %s", sorted(kwargs))
        super().__init__(learning_rate, beta_1, beta_2, epsilon or 1e-7, name=name)
