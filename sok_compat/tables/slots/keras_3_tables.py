# SPDX-License-Identifier: Apache-2.0
"""Tables in layers of Keras 3, whose optimizers then make planes of them and update rows in use."""

from __future__ import annotations

import contextlib
import functools
import weakref
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from sok_compat.ranks.identity import current_ranks
from sok_compat.runtime import integrations
from sok_compat.runtime.strategies import around_slots
from sok_compat.runtime.tf_versions import Variable, keras_3, members
from sok_compat.tables.interface import TableInterface
from sok_compat.tables.rows.shown_rows import showing_some_rows
from sok_compat.tables.slots.slot_creation import make_slot, raise_for_average
from sok_compat.tables.slots.slot_variable import SlotVariable

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

_Variable: Any = object if keras_3 is None else keras_3.Variable
# {unique id of a table: the Keras variable that holds it}
_holders: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()


class TableVariable(_Variable):
    """The variable of Keras 3 that holds a table, for a layer to track.

    Its gradients are those of the table's rows. tf.train.Checkpoint saves the table itself.
    """

    def __init__(self, table: TableInterface) -> None:
        """Creates no variable of TensorFlow.

        Raises:
          NotImplementedError: there are several ranks.
        """
        if current_ranks().size > 1:
            raise NotImplementedError(
                f"layers of Keras 3 train on one rank, got {current_ranks().size}: install "
                "tf-keras and set TF_USE_LEGACY_KERAS=1 to use Keras 2"
            )
        _holders[members.unique_id(table)] = self
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
        """The rows of a table without a hash index.

        Raises:
          NotImplementedError: with one: rows do not tell their keys, and there may be many.
        """
        if not self._table.use_hash_index:
            return self._table.numpy()
        raise NotImplementedError(
            f"rows of the table {self._table.table_name} do not tell their keys: save and restore "
            "the model with tf.train.Checkpoint"
        )

    def __array__(self, dtype: DTypeLike = None, copy: Any = None) -> Any:
        """As numpy(), for `.h5` files."""
        del copy
        return np.asarray(self.numpy(), dtype)

    def assign(self, value: Any) -> Any:
        """Replaces the rows of a table without a hash index.

        Raises:
          NotImplementedError: with one.
        """
        if not self._table.use_hash_index:
            return self._table.assign(tf.convert_to_tensor(value, tf.float32))
        raise NotImplementedError(
            f"the table {self._table.table_name} cannot be assigned rows, which do not tell their "
            "keys: restore the model with tf.train.Checkpoint. If the weight decay of Muon did it, "
            "set adam_weight_decay=None, or take AdamW"
        )

    def __repr__(self) -> str:
        """Leaves the rows out."""
        return f"<TableVariable path={self.path}, shape={self.shape}>"

    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        """Returns nothing: the layer tracks the table, too."""
        return {}


def adapt_optimizers_of_keras_3() -> None:
    """Makes their slots of tables planes, and their loss scaling follow the rows, from now on."""
    around_slots(_making_planes)
    integrations.apply("tf.keras.optimizers.LossScaleOptimizer.check_finite", _checking_values)


def _checking_values(check):
    @functools.wraps(check)
    def check_finite(self, grads):
        return check(self, [g.values if isinstance(g, tf.IndexedSlices) else g for g in grads])

    return check_finite


def check_optimizer(optimizer: Any, table: TableInterface) -> None:
    """Refuses an optimizer that keeps arrays of a table's declared rows, as Adafactor does.

    Raises:
      NotImplementedError: it has a variable with the table's name and number of rows, which Keras
        did not make beside the table, so that it is no plane; or a slot that starts as the rows.
    """
    way_out = (
        "Take another optimizer, or install tf-keras and set TF_USE_LEGACY_KERAS=1 to use Keras 2"
    )
    if type(optimizer).__name__ == "ScheduleFreeAdamW":
        raise NotImplementedError(
            f"ScheduleFreeAdamW cannot train the table {table.table_name}: its momentum starts as "
            f"the rows that are there, and other keys come later. {way_out}"
        )
    holder = _holders.get(members.unique_id(table), table)
    for each in optimizer.variables:
        is_of_table = each.name.startswith(holder.name) and each.shape[:1] == (table.capacity,)
        if is_of_table and not isinstance(each.value, SlotVariable):
            raise NotImplementedError(
                f"{type(optimizer).__name__} of Keras 3 cannot train the table {table.table_name}: "
                f"its {each.path} {tuple(each.shape)} has a place for each declared row, not for "
                f"each row in use. {way_out}"
            )


def _making_planes(variable: Variable) -> AbstractContextManager[Any]:
    """The context in which an optimizer creates a slot of a variable."""
    table: Any = variable
    if not isinstance(table, TableInterface):
        return contextlib.nullcontext()
    holder = _holders.get(members.unique_id(table))
    name = table.name if holder is None else holder.path
    before = f"{name.replace('/', '_').replace(':', '_')}_"  # of the slot's own name

    def creator(next_creator: Any, **kwargs: Any) -> Any:
        if not kwargs["name"].startswith(before):  # of an optimizer of TensorFlow
            return next_creator(**kwargs)
        if kwargs["name"].endswith("_gradient_accumulator"):
            raise NotImplementedError(
                f"gradient_accumulation_steps would add up arrays of the capacity of the table "
                f"{table.table_name}: leave it out, and use larger batches"
            )
        slot = kwargs["name"].removeprefix(before)
        if slot == "average":
            raise_for_average(table)
        made = make_slot(table, f"{table.table_name}/{slot}", kwargs["initial_value"])
        members.save_mark_of(made, "IS_SAVED_WITH_TABLE")
        return made

    return _of_known_shape(table, tf.variable_creator_scope(creator))


@contextlib.contextmanager
def _of_known_shape(table, scope):
    """The scope; where the table declares no capacity it shows a few rows, as Keras makes slots of
    known shapes alone."""
    is_unknown = table.capacity is None and not table.shows_rows()
    with showing_some_rows(table) if is_unknown else contextlib.nullcontext(), scope:
        yield
