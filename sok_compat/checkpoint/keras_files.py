# SPDX-License-Identifier: Apache-2.0
"""Keras's old .h5 files and tables: in a graph nothing else says that they do not go together."""

import functools

from sok_compat.runtime import integrations
from sok_compat.tables.table import Table


def refuse_tables_in_h5_files():
    """Makes Keras raise where a table would be written without its keys, or other ranks' rows."""
    integrations.apply("tf.keras.save_subset_weights_to_hdf5_group", _refusing_tables)


def _refusing_tables(save):
    @functools.wraps(save)
    def save_without_tables(f, weights):
        for weight in weights:
            lost = what_files_lose(weight)
            if lost is not None:
                raise NotImplementedError(
                    f"an .h5 file would hold the table {weight.table_name} without {lost}: use "
                    "model.save_weights with a path without an ending, tf.train.Checkpoint, or, "
                    f"for the table alone, {weight.words.save}"
                )
        return save(f, weights)

    return save_without_tables


def what_files_lose(variable):
    """What of a variable Keras would not write with its value; None: nothing."""
    if not isinstance(variable, Table):
        return None
    if variable.use_hash_index:
        return "its keys"
    return "what other ranks have" if variable.saved_parts and variable.ranks.size > 1 else None
