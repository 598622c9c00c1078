# SPDX-License-Identifier: Apache-2.0
"""A table in plain NumPy: what each call must give and leave behind."""

import numpy as np

LEARNING_RATE = 0.5


class TableFull(Exception):
    """The call must fail for lack of room."""


class TableModel:
    """Keys and rows of the table of a cases.LayerCase.

    `first_rows(keys)`: the first values [n, dim] of keys that the table does not hold, asked of
    the layer itself, one key at a time, where they are random.
    """

    def __init__(self, layer, first_rows):
        self.rows = {}  # key: float64 [dim]
        self._layer = layer
        self._first_rows = first_rows
        self._seen_first_rows = {}
        if layer.first_values.is_preset and not layer.use_hashtable:  # an array is a write
            self.rows = self._rows_of_new([range(layer.capacity)])

    def call(self, bags, action, weights):
        """The output [bags, dim]; `weights`, of that shape, is its gradient in a training call."""
        layer = self._layer
        rows = {**self._rows_of_new(bags), **self.rows}
        if action != "read":
            num_keys = len({*self.rows, *(key for bag in bags for key in bag)})
            if layer.use_hashtable and num_keys > layer.capacity:
                raise TableFull
            self.rows = rows
        output = np.zeros([len(bags), layer.dim])
        gradients = {}
        for number, bag in enumerate(bags):
            share = 1.0 / len(bag) if layer.is_sparse and layer.combiner == "mean" and bag else 1.0
            for key in bag:
                output[number] += rows[key] * share
                if action == "train":
                    gradients[key] = gradients.get(key, 0) + weights[number] * share
        for key, gradient in gradients.items():
            self.rows[key] = self.rows[key] - LEARNING_RATE * gradient
        return output

    def _rows_of_new(self, bags):
        """{key: first value} of the keys that the table does not hold, in order of appearance."""
        keys = list(dict.fromkeys(key for bag in bags for key in bag if key not in self.rows))
        layer, first = self._layer, self._layer.first_values
        if not keys:
            return {}
        if first.constant is not None:
            rows = np.full([len(keys), layer.dim], first.constant)
        elif first.is_preset:
            numbers = np.arange(len(keys)) + len(self.rows) if layer.use_hashtable else keys
            numbers = np.where(np.array(numbers) < layer.capacity, numbers, 0.0)  # no row: zeros
            rows = np.repeat(numbers[:, np.newaxis], layer.dim, axis=1)
        else:
            rows = self._random_rows(keys)
        return dict(zip(keys, rows))

    def _random_rows(self, keys):
        rows = self._first_rows(keys).astype(np.float64)
        assert np.all(np.abs(rows) <= self._layer.first_values.limit), rows
        for key, row in zip(keys, rows):
            np.testing.assert_array_equal(self._seen_first_rows.setdefault(key, row), row)
        return rows
