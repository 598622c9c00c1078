# SPDX-License-Identifier: Apache-2.0
"""`UpdateScope`: around stock optimizers' updates of tables, which cost less for it."""

import tensorflow as tf

from sok_compat.training.rows_in_use import update_rows_in_use_only
from sok_compat.training.stock_updates import speed_up


class UpdateScope:
    """Build `apply_gradients` of a stock optimizer inside it.

    Updates of all rows of tables, or of their planes, become updates of the rows in use
    (rows_in_use.py), and sparse updates get faster (stock_updates.py). Both say to how many digits
    the numbers are the same.
    """

    def __init__(self, tables):
        """Takes a list of Tables; their slots are those in `table.slots` at the end."""
        self._tables = tables

    def __enter__(self):
        self._num_operations = len(_all_operations())
        for table in self._tables:
            table.num_scopes += 1
        return self

    def __exit__(self, exception_type, exception, traceback):
        for table in self._tables:
            table.num_scopes -= 1
        if exception_type is None:
            speed_up(self._new_operations(), self._tables)
            update_rows_in_use_only(self._new_operations(), self._tables)
        return False

    def _new_operations(self):
        return _all_operations()[self._num_operations :]


def _all_operations():
    """Of the graph that is being built; none in eager mode."""
    if tf.executing_eagerly():
        return []
    return tf.compat.v1.get_default_graph().get_operations()
