# SPDX-License-Identifier: Apache-2.0
"""DeepRec's own optimizers against their formulas in NumPy, on one process or several ranks."""

import numpy as np
import tensorflow as tf

from sok_compat.deeprec.optimizer_rules import train_optimizers as optimizers
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable

tf1 = tf.compat.v1
NUM_KEYS, DIM, BATCH = 12, 3, 6
GLOBAL_STEPS = [0, 1, 2, 3, 9, 4, 5, 12]  # of a script that skips some, and once returns to one
TOLERANCE = dict(rtol=1e-4, atol=1e-5)


class AdamAsync:
    """`rows` after steps, of which each moves the rows where `is_touched`."""

    def __init__(self, rows, use_rmsprop=False):
        self.rows, self._use_rmsprop = rows.astype(np.float64), use_rmsprop
        self._m, self._v, self._powers = 0 * self.rows, 0 * self.rows, np.array([0.8, 0.95])

    def step(self, gradients, is_touched, global_step):
        del global_step
        m, v, g = self._m[is_touched], self._v[is_touched], gradients[is_touched]
        v = 0.95 * v + 0.05 * g**2
        if self._use_rmsprop:
            m = 0.8 * m + 0.1 * g / np.sqrt(v + 1e-3)
            self.rows[is_touched] -= m
        else:
            m = 0.8 * m + 0.2 * g
            rate = 0.1 * np.sqrt(1 - self._powers[1]) / (1 - self._powers[0])
            self.rows[is_touched] -= rate * m / (np.sqrt(v) + 1e-3)
        self._m[is_touched], self._v[is_touched] = m, v
        self._powers *= [0.8, 0.95]


class AdamW(AdamAsync):
    """Its decay is that of the rows where `is_touched`; `moves_all`: Adam moves all."""

    def __init__(self, rows, moves_all=False):
        super().__init__(rows)
        self._moves_all, self.weight_decay = moves_all, 0.05

    def step(self, gradients, is_touched, global_step):
        self.rows[is_touched] *= 1 - self.weight_decay
        super().step(gradients, is_touched | self._moves_all, global_step)


class AdagradDecay:
    """`rows` after steps; a decay every two, of the accumulators of all rows."""

    def __init__(self, rows):
        self.rows, self._accumulators = rows.astype(np.float64), np.full(rows.shape, 0.3)
        self._decays = 0

    def step(self, gradients, is_touched, global_step):
        due = (global_step + 1) // 2
        for _ in range(self._decays, due):
            self._accumulators = np.maximum(0.5 * self._accumulators, 0.3)
        self._decays = due
        self._accumulators[is_touched] += gradients[is_touched] ** 2
        roots = np.sqrt(self._accumulators[is_touched])
        self.rows[is_touched] -= 0.1 * gradients[is_touched] / roots


class RowWiseAdagrad:
    """`rows` after steps; an accumulator for each row, or for each value."""

    def __init__(self, rows, by_row):
        self.rows, self._by_row = rows.astype(np.float64), by_row
        self._sums = np.full([len(rows), 1 if by_row else rows.shape[1]], 0.3)

    def step(self, gradients, is_touched, global_step):
        del global_step
        g = gradients[is_touched]
        squares = np.mean(g**2, axis=1, keepdims=True) if self._by_row else g**2
        self._sums[is_touched] += squares
        self.rows[is_touched] -= 0.1 * g / np.sqrt(self._sums[is_touched])


class Ftrl:
    """`rows` after steps; l1 by row, as DeepRec's for embedding variables, or by element, as
    TensorFlow's. With shrinkage, DeepRec's also has it in the square of the step."""

    def __init__(self, rows, by_row):
        self.rows, self._sums = rows.astype(np.float64), np.full(rows.shape, 0.2)
        self._linear, self._by_row = 0 * self.rows, by_row

    def step(self, gradients, is_touched, global_step):
        del global_step
        rows, sums, g = self.rows[is_touched], self._sums[is_touched], gradients[is_touched]
        shrunk = g + 2 * 0.03 * rows
        roots = np.sqrt(sums + (shrunk if self._by_row else g) ** 2)
        linear = self._linear[is_touched] + shrunk - (roots - np.sqrt(sums)) / 0.1 * rows
        scale = -1 / (roots / 0.1 + 2 * 0.02)
        size = np.linalg.norm(linear, axis=1, keepdims=True) if self._by_row else np.abs(linear)
        self.rows[is_touched] = scale * linear * np.maximum(0, 1 - 1.5 / size)
        self._sums[is_touched], self._linear[is_touched] = sums + g**2, linear


def _ftrl(global_step, use_locking):
    del global_step
    return optimizers.FtrlOptimizer(
        0.1,
        initial_accumulator_value=0.2,
        l1_regularization_strength=1.5,
        l2_regularization_strength=0.02,
        l2_shrinkage_regularization_strength=0.03,
        use_locking=use_locking,
    )


def _adam_async(use_rmsprop):
    def make(global_step, use_locking):
        del global_step
        return optimizers.AdamAsyncOptimizer(
            tf1.placeholder_with_default(0.1, []), 0.8, lambda: 0.95, 1e-3, use_locking, use_rmsprop
        )

    def expected(rows, is_dense=False):
        return AdamAsync(rows, use_rmsprop and not is_dense)

    return make, expected, expected


def _adagrad_decay(optimizer):
    def make(global_step, use_locking):
        return optimizer(0.1, global_step, 0.3, 2, 0.5, use_locking)

    return make, AdagradDecay, AdagradDecay


def _row_wise_adagrad(global_step, use_locking):
    del global_step
    return optimizers.RowWiseAdagradOptimizer(0.1, 0.3, use_locking)


# {case: (makes the optimizer, what equals it on embedding variables, and on ordinary ones)}
CASES = {
    "AdamAsync": _adam_async(False),
    "AdamAsync-rmsprop": _adam_async(True),
    "AdagradDecay": _adagrad_decay(optimizers.AdagradDecayOptimizer),
    "AdagradDecayV2": _adagrad_decay(optimizers.AdagradDecayOptimizerV2),
    "RowWiseAdagrad": (
        _row_wise_adagrad,
        lambda rows: RowWiseAdagrad(rows, by_row=True),
        lambda rows: RowWiseAdagrad(rows, by_row=False),
    ),
    "Ftrl": (_ftrl, lambda rows: Ftrl(rows, by_row=True), lambda rows: Ftrl(rows, by_row=False)),
    "AdamW": (
        lambda global_step, use_locking: optimizers.AdamWOptimizer(
            tf.constant(0.05), 0.1, 0.8, 0.95, 1e-3, use_locking
        ),
        AdamW,
        lambda rows: AdamW(rows, moves_all=True),
    ),
}


def assert_follows_formula(case, use_locking=False, config=None, rank=0, size=1):
    """Trains an embedding variable on this rank's part of each global batch; with one rank ordinary
    variables as well, by sparse gradients and by dense ones."""
    make, expected_of_keys, expected_of_ordinary = CASES[case]
    rng = np.random.default_rng(3)
    with tf.Graph().as_default(), tf1.Session(config=config) as session:
        variable = get_embedding_variable("v", DIM, initializer=tf1.ones_initializer())
        first = rng.normal(size=[NUM_KEYS, DIM]).astype(np.float32)
        # AdagradDecay updates reference variables in a tf.cond, which needs the older control flow.
        kinds = (True,) if case.startswith("AdagradDecay") else (True, False)
        ordinary, dense = (
            [
                tf1.get_variable(
                    f"{name}_{use_resource}", initializer=rows, use_resource=use_resource
                )
                for use_resource in kinds
            ]
            for name, rows in (("ordinary", first), ("dense", first[0]))
        )
        trained = [variable, *ordinary, *dense] if size == 1 else [variable]
        ids, gradients = tf1.placeholder(tf.int64, [None]), tf1.placeholder(tf.float32, [None, DIM])
        global_step = tf1.placeholder(tf.int64, [])
        loss = tf.reduce_sum(tf.nn.embedding_lookup(variable, ids) * gradients)
        loss += sum(tf.reduce_sum(tf.gather(each, ids) * gradients) for each in ordinary)
        loss += sum(tf.reduce_sum(each * gradients) for each in dense)
        step = make(global_step, use_locking).minimize(loss, var_list=trained)
        rows = tf.nn.embedding_lookup(variable, tf.range(NUM_KEYS))
        session.run(tf1.global_variables_initializer())
        of_keys, of_ordinary = (
            expected_of_keys(np.ones([NUM_KEYS, DIM])),
            expected_of_ordinary(first),
        )
        is_adam = case.startswith("AdamAsync")
        of_dense = expected_of_ordinary(first[:1], **({"is_dense": True} if is_adam else {}))
        for number, count in enumerate(GLOBAL_STEPS):
            keys = rng.integers(0, 3 + number, BATCH)
            values = rng.normal(size=[BATCH, DIM])
            fed = {ids: keys[rank::size], gradients: values[rank::size], global_step: count}
            session.run(step, fed)
            merged, is_touched = np.zeros([NUM_KEYS, DIM]), np.isin(np.arange(NUM_KEYS), keys)
            np.add.at(merged, keys, values)
            of_keys.step(merged, is_touched, count)
            of_ordinary.step(merged, is_touched, count)
            of_dense.step(values.sum(0, keepdims=True), np.array([True]), count)
        np.testing.assert_allclose(session.run(rows), of_keys.rows, **TOLERANCE)
        if size == 1:
            for each in session.run(ordinary):
                np.testing.assert_allclose(each, of_ordinary.rows, **TOLERANCE)
            for each in session.run(dense):
                np.testing.assert_allclose(each, of_dense.rows[0], **TOLERANCE)
