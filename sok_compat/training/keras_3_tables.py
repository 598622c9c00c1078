# SPDX-License-Identifier: Apache-2.0
"""Tables in layers of Keras 3, whose optimizers then make planes of them and update rows in use."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from sok_compat.ranks.identity import current_ranks
from sok_compat.runtime.strategies import around_slots
from sok_compat.runtime.tf_versions import keras_3
from sok_compat.tables.table import Table
from sok_compat.training.slot_creation import make_slot

if TYPE_CHECKING:
    from tensorflow.python.ops.variables import Variable

_Variable: Any = object if keras_3 is None else keras_3.Variable
_unique_ids: set[str] = set()  # of the tables that are in Keras variables


class TableVariable(_Variable):
    """The variable of Keras 3 that holds a table, for a layer to track.

    Its gradients are those of the table's rows. tf.train.Checkpoint saves the table itself.
    """

    def __init__(self, table: Table) -> None:
        """Creates no variable of TensorFlow.

        Raises:
          NotImplementedError: there are several ranks.
        """
        if current_ranks().size > 1:
            raise NotImplementedError(
                f"layers of Keras 3 train on one rank, got {current_ranks().size}: install "
                "tf-keras and set TF_USE_LEGACY_KERAS=1 to use Keras 2"
            )
        _unique_ids.add(table._unique_id)
        around_slots(_making_planes)
        self._table = table
        super().__init__(
            lambda *_, **__: None,
            shape=tuple(table.shape),
            dtype="float32",
            trainable=table.trainable,
            autocast=False,
            name=table.table_name.replace("/", "_"),
        )

    def _initialize_with_initializer(self, initializer: Any) -> None:
        """Takes the table for the value of which Keras would make a variable."""
        del initializer
        self._value = self._table

    def numpy(self) -> Any:
        """Refuses to read the rows without their keys, of which there may be many.

        Raises:
          NotImplementedError: always.
        """
        raise NotImplementedError(
            f"rows of the table {self._table.table_name} do not tell their keys: save and restore "
            "the model with tf.train.Checkpoint"
        )

    def assign(self, value: Any) -> Any:
        """As numpy()."""
        del value
        return self.numpy()

    def __repr__(self) -> str:
        """Leaves the rows out."""
        return f"<TableVariable path={self.path}, shape={self.shape}>"

    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        """Returns nothing: the layer tracks the table, too."""
        return {}


def _making_planes(variable: Variable) -> AbstractContextManager[Any]:
    """The context in which an optimizer creates a slot of a variable."""
    table: Any = variable
    if not isinstance(table, Table) or table._unique_id not in _unique_ids:
        return contextlib.nullcontext()

    def creator(next_creator: Any, **kwargs: Any) -> Any:
        del next_creator
        if kwargs["name"].endswith("_gradient_accumulator"):
            raise NotImplementedError(
                f"gradient_accumulation_steps would add up arrays of the capacity of the table "
                f"{table.table_name}: leave it out, and use larger batches"
            )
        return make_slot(table, f"{table.table_name}/{kwargs['name']}", kwargs["initial_value"])

    return tf.variable_creator_scope(creator)
