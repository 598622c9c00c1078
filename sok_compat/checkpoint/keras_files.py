# SPDX-License-Identifier: Apache-2.0
"""Keras's old .h5 files and tables: in a graph nothing else says that they do not go together."""

import functools

from sok_compat.runtime import integrations
from sok_compat.tables.table import Table


def refuse_tables_in_h5_files():
    """Makes Keras raise where a table with a hash index would be written without its keys."""
    integrations.apply("tf.keras, save_subset_weights_to_hdf5_group", _refusing_tables)


def _refusing_tables(save):
    @functools.wraps(save)
    def save_without_tables(f, weights):
        for weight in weights:
            if isinstance(weight, Table) and weight.use_hash_index:
                raise NotImplementedError(
                    f"an .h5 file would hold the table {weight.table_name} without its keys: use "
                    "model.save_weights with a path without an ending, tf.train.Checkpoint, or, "
                    f"for the table alone, {weight.words.save}"
                )
        return save(f, weights)

    return save_without_tables
