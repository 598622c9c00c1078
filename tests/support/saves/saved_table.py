# SPDX-License-Identifier: Apache-2.0
"""Tables that are saved and restored."""

import pathlib

import numpy as np
import tensorflow as tf

import sok_compat as sok
from tests.support.cases.layer_cases import LayerCase
from tests.support.cases.optimizer_cases import COMMON_OPTIMIZERS

DIM = 3


class SavedTable:
    """One table in the default graph with its ops of saving, training and looking."""

    def __init__(
        self,
        folder,
        use_hashtable=True,
        key_dtype="int64",
        capacity=16,
        optimizer=COMMON_OPTIMIZERS[0],
        initializer=None,
        dim=DIM,
    ):
        case = LayerCase("dynamic", use_hashtable, key_dtype, dim)
        layer = case.make_layer(capacity, embedding_initializer=initializer)
        saver = sok.Saver()
        self.keys = case.placeholder()
        self.table = layer.embedding_variable
        self.output = layer(self.keys)
        self.read = layer(self.keys, training=False)
        gradients = tf.gradients(tf.reduce_sum(tf.sin(self.output)), [self.table])
        self.step = optimizer.train_tables(gradients, [self.table])
        self.dump = saver.dump_to_file(self.table, str(folder))
        self.restore = saver.restore_from_file(self.table, str(folder))
        self.values = tf.compat.v1.placeholder(tf.float32, None)
        self.load = saver.load_embedding_values(self.table, self.values)
        self.exported = self.table.export()
        self.key_dtype = np.dtype(key_dtype)
        self.stem = f"{folder}/{self.table.m_var_name}"

    def rows(self, session):
        """{key: row} of what the table holds."""
        keys, rows = session.run(self.exported)
        return dict(zip(keys.tolist(), rows))

    def files(self):
        """{key: row} of what the files hold, read with NumPy."""
        keys = np.fromfile(f"{self.stem}_keys.file", self.key_dtype.newbyteorder("<"))
        values = np.fromfile(f"{self.stem}_values.file", "<f4").reshape(-1, self.table.dim)
        assert len(keys) == len(values) == len(set(keys.tolist()))
        return dict(zip(keys.tolist(), values))

    def write_files(self, rows, key_dtype=None):
        """Writes {key: row} with NumPy, as another program does."""
        pathlib.Path(f"{self.stem}.dump").unlink(missing_ok=True)
        keys = np.array(list(rows), key_dtype or self.key_dtype)
        keys.astype(keys.dtype.newbyteorder("<")).tofile(f"{self.stem}_keys.file")
        values = np.array(list(rows.values()), "<f4").reshape(len(rows), -1)
        values.tofile(f"{self.stem}_values.file")


def random_rows(keys, seed=0):
    rows = np.random.default_rng(seed).normal(size=[len(keys), DIM]).astype(np.float32)
    return dict(zip(keys, rows))


def assert_rows_equal(actual, expected):
    assert actual.keys() == expected.keys()
    for key, row in actual.items():
        np.testing.assert_array_equal(row, expected[key])
