# SPDX-License-Identifier: Apache-2.0
"""`sok.optimizers.Adam`: the plugin Adam, for tables only."""

import logging

import tensorflow as tf

from sok_compat.core.graph_keys import GraphKeys
from sok_compat.tf.keras.optimizers.adam import Adam as KerasAdam
from sok_compat.variables.embedding_variable import EmbeddingVariable

_logger = logging.getLogger(__name__)


class Adam(KerasAdam):
    """Adam on tables, with the numbers of Keras Adam. API of SparseOperationKit 1.x.

    All rows in use decay and move in every step, also those without a gradient; a step costs what
    the rows in use cost. Needs no OptimizerScope. States are not saved by sok.Saver.
    """

    def __init__(
        self,
        learning_rate=0.001,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-7,
        name="Plugin_Adam",
        **kwargs,
    ):
        """Makes the optimizer.

        Args:
          learning_rate: a number, a Keras schedule, a callable or a tensor; also as lr=.
          beta_1: decay of the first moment.
          beta_2: decay of the second moment.
          epsilon: added to the root of the second moment; falsy: Keras's epsilon.
          name: of the optimizer.
          **kwargs: others (clipnorm, decay, ...) are ignored, as in SparseOperationKit, and logged.
        """
        learning_rate = kwargs.pop("lr", learning_rate)
        if kwargs:
            _logger.warning("sok.optimizers.Adam ignores the arguments %s", sorted(kwargs))
        super().__init__(learning_rate, beta_1, beta_2, epsilon or 1e-7, name=name)
        if not tf.executing_eagerly():
            tf.compat.v1.add_to_collection(GraphKeys.SparseOperationKitOptimizer, self)

    @property
    def initializer(self):
        """An op that initializes the states made so far; global_variables_initializer does, too.

        None in eager mode, where states are made initialized.
        """
        if tf.executing_eagerly():
            return None
        return tf.group(*(variable.initializer for variable in self.variables()))

    def _create_slots(self, var_list):
        for variable in var_list:
            if not isinstance(variable, EmbeddingVariable):
                raise ValueError(
                    f"sok.optimizers.Adam trains EmbeddingVariables only, got {variable.name}; "
                    "split the variables with sok.split_embedding_variable_from_others"
                )
        super()._create_slots(var_list)

    def get_config(self):
        """Not available, as in SparseOperationKit.

        Raises:
          NotImplementedError: always.
        """
        raise NotImplementedError(
            "sok.optimizers.Adam has no config: make it anew with its arguments"
        )
