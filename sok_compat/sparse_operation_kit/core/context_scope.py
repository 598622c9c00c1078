# SPDX-License-Identifier: Apache-2.0
"""`OptimizerScope`: a scope in which stock optimizers make planes of tables as their slots."""

from __future__ import annotations

import collections
from typing import Any

import tensorflow as tf

from sok_compat.runtime.tf_versions import keras, make_slots, members
from sok_compat.tables.slots.slot_creation import make_slot_or_variable
from sok_compat.tables.slots.slot_names import is_named_as_by_newer_keras
from sok_compat.tables.table import Table
from sok_compat.training.update_scope import UpdateScope


class OptimizerScope:
    """A scope for building `apply_gradients` of a stock optimizer. API of SparseOperationKit 1.x.

    Slots that the optimizer makes for tables become planes of these tables, which take memory for
    the rows in use instead of the whole capacity. Updates of all rows become updates of the rows in
    use, and sparse updates get faster, with the same numbers (training/update_scope.py). Everything
    else is as outside.

    ```
    with sok.OptimizerScope(embedding_variables):
        train_op = optimizer.apply_gradients(zip(gradients, embedding_variables))
    ```

    If other code calls `apply_gradients`, such as `model.fit`, make the slots beforehand:

    ```
    sok.OptimizerScope(model.trainable_variables).build(optimizer)
    model.compile(optimizer, ...)
    ```
    """

    def __init__(self, trainable_variables: list[tf.Variable] | tuple[tf.Variable, ...]) -> None:
        """Makes the scope.

        Args:
          trainable_variables: list or tuple of variables; those that are not tables are ignored.

        Raises:
          RuntimeError: trainable_variables is neither a list nor a tuple.
          TypeError: it contains a layer.
          ValueError: two tables have the same name, by which slots are told apart; possible in
            eager mode if tf.keras.backend.clear_session() was called between them.
        """
        if not isinstance(trainable_variables, (list, tuple)):
            raise RuntimeError(
                "OptimizerScope takes a list or tuple of variables, got "
                f"{type(trainable_variables).__name__}"
            )
        for item in trainable_variables:
            if hasattr(item, "embedding_variable"):
                raise TypeError(
                    f"OptimizerScope takes variables, got the layer {item.name}: pass its "
                    "embedding_variable"
                )
        self._variables = list(trainable_variables)
        self._tables = [v for v in trainable_variables if isinstance(v, Table)]
        self._creator_scope: Any = None
        names = {members.unique_id(table): table.table_name for table in self._tables}.values()
        for name, count in collections.Counter(names).items():
            if count > 1:
                raise ValueError(
                    f"OptimizerScope got {count} tables named {name}, and tells their slots apart "
                    "by name: use a scope for each, or make them in name scopes of their own"
                )

    def __enter__(self) -> OptimizerScope:
        with tf.init_scope():  # where optimizers make their slots, even in a tf.function
            self._creator_scope = tf.variable_creator_scope(self._make_variable)
            self._creator_scope.__enter__()
        self._num_slots = {table.table_name: len(table.slots) for table in self._tables}
        self._update_scope = UpdateScope(self._tables).__enter__()
        return self

    def __exit__(self, exception_type, exception, traceback):
        self._creator_scope.__exit__(exception_type, exception, traceback)
        error = exception or self._error_for_keras_in_graph()
        self._update_scope.__exit__(type(error) if error else None, error, traceback)
        if exception is None and error:
            raise error
        return False

    def build(self, optimizer: keras.optimizers.Optimizer) -> None:
        """Makes the slots of a Keras optimizer for all variables of this scope, now.

        Raises:
          TypeError: optimizer is not a Keras optimizer.
        """
        with tf.init_scope(), tf.variable_creator_scope(self._make_variable):
            make_slots(optimizer, self._variables)

    def _error_for_keras_in_graph(self):
        is_graph = not tf.executing_eagerly() and not (
            tf.compat.v1.get_default_graph().building_function
        )
        for table in self._tables if is_graph else []:
            for slot in table.slots[self._num_slots[table.table_name] :]:
                if is_named_as_by_newer_keras(slot.op.name, table):
                    return RuntimeError(
                        f"the optimizer that made the slot {slot.name} does not work in graph "
                        "mode, where its apply_gradients counts a step and updates nothing: take "
                        "the one of the same name in tf.keras.optimizers.legacy, or call "
                        "apply_gradients in a tf.function"
                    )
        return None

    def _make_variable(self, next_creator, **kwargs):
        return make_slot_or_variable(self._tables, next_creator, kwargs)
