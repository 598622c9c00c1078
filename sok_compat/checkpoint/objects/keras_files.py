# SPDX-License-Identifier: Apache-2.0
"""Refuses tables in Keras's .h5 files; in a graph nothing else reports that they do not work."""

from __future__ import annotations

import functools

import tensorflow as tf

from sok_compat.runtime import integrations
from sok_compat.runtime.tf_versions import has_keras_2
from sok_compat.tables.table import Table


def refuse_tables_in_h5_files() -> None:
    """Makes Keras raise rather than write a table without its keys or other ranks' rows."""
    if has_keras_2:
        integrations.apply("tf.keras.Model.save_weights, to .h5", _refusing_tables)


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


def what_files_lose(variable: tf.Variable) -> str | None:
    """Words for the contents of a variable that an .h5 file would lose; None if it loses none."""
    if not isinstance(variable, Table):
        return None
    if variable.use_hash_index:
        return "its keys"
    has_parts = variable.storage.parts and variable.ranks.size > 1
    return "the rows of other ranks" if has_parts else None
