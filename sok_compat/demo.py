# SPDX-License-Identifier: Apache-2.0
"""Trains a click model on generated data, on tables and on plain variables: `python -m
sok_compat.demo`.

Needs no files and no Horovod. Users and items have hidden vectors, so the best possible AUC is
known. Both models start from the same values and see the same batches.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from sok_compat import sparse_operation_kit as sok

USERS, ITEMS, HIDDEN, DIM = 20_000, 2_000, 3, 15
BATCH, TEST_SAMPLES = 8_192, 50_000
LEARNING_RATE = 0.1


@dataclasses.dataclass(frozen=True)
class Clicks:
    """Samples: users [n] and items [n], their click 0.0 or 1.0, and its true probability."""

    users: np.ndarray
    items: np.ndarray
    click: np.ndarray
    probability: np.ndarray


class Generator:
    """Draws clicks; popular users and items come more often."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._of_users = self._random.normal(size=[USERS, HIDDEN])
        self._of_items = self._random.normal(size=[ITEMS, HIDDEN])

    def draw(self, count: int) -> Clicks:
        users = (USERS * self._random.random(count) ** 2).astype(np.int64)
        items = (ITEMS * self._random.random(count) ** 2).astype(np.int64)
        score = np.sum(self._of_users[users] * self._of_items[items], axis=1) - 1
        probability = 1 / (1 + np.exp(-score))
        click = (self._random.random(count) < probability).astype(np.float32)
        return Clicks(users, items, click, probability)


class Model:
    """Clicks from the product of a user's and an item's row, which ends with their biases."""

    def __init__(
        self,
        variables: Sequence[tf.Variable],
        wraps: Callable[[Any], Any] = lambda optimizer: optimizer,
    ) -> None:
        self._variables = variables
        self._optimizer = wraps(tf.compat.v1.train.AdagradOptimizer(LEARNING_RATE))
        self.logits = tf.function(self._logits)
        self.train = tf.function(self._train)

    def look_up(self, users: tf.Tensor, items: tf.Tensor) -> list[tf.Tensor]:
        return [tf.nn.embedding_lookup(*each) for each in zip(self._variables, (users, items))]

    def _logits(self, users: tf.Tensor, items: tf.Tensor) -> tf.Tensor:
        of_users, of_items = self.look_up(users, items)
        product = tf.reduce_sum(of_users[:, :-1] * of_items[:, :-1], 1)
        return product + of_users[:, -1] + of_items[:, -1]

    def _train(self, users: tf.Tensor, items: tf.Tensor, click: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = tf.nn.sigmoid_cross_entropy_with_logits(click, self._logits(users, items))
            loss = tf.reduce_mean(losses)
        # Of a sum: each row learns from its own samples.
        gradients = [
            tf.IndexedSlices(each.values * BATCH, each.indices, each.dense_shape)
            for each in tape.gradient(loss, self._variables)
        ]
        self._optimizer.apply_gradients(zip(gradients, self._variables))
        return loss


def auc(click: np.ndarray, score: np.ndarray) -> float:
    """The probability that a click scores higher than no click."""
    ranks = np.empty(len(score))
    ranks[np.argsort(score)] = np.arange(1, len(score) + 1)
    clicks = click.sum()
    return float(
        (ranks[click > 0].sum() - clicks * (clicks + 1) / 2) / (clicks * (len(click) - clicks))
    )


def main(arguments: Sequence[str] = ()) -> int:
    """Trains both models, and prints their losses, AUCs and speeds; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m sok_compat.demo", description=__doc__)
    parser.add_argument("--steps", type=int, default=500, help="batches of each model")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    if options.steps < 1:
        parser.error(f"--steps must be at least 1, got {options.steps}")
    sok.init()
    generator = Generator(options.seed)
    tables = [sok.DynamicVariable(DIM + 1, None, "hbm", name) for name in ("users", "items")]
    model = Model(tables, sok.OptimizerWrapper)
    first_values = model.look_up(*(tf.range(count, dtype=tf.int64) for count in (USERS, ITEMS)))
    models = {"sok_compat": model, "TensorFlow": Model([tf.Variable(v) for v in first_values])}
    seconds = dict.fromkeys(models, 0.0)
    print(f"{USERS:,} users, {ITEMS:,} items, {options.steps:,} batches of {BATCH:,} samples")
    for step in range(1, options.steps + 1):
        batch = generator.draw(BATCH)
        inputs = [tf.constant(each) for each in (batch.users, batch.items, batch.click)]
        losses = {}
        for name, model in models.items():
            began = time.perf_counter()
            losses[name] = float(model.train(*inputs))
            seconds[name] += (time.perf_counter() - began) if step > 1 else 0  # built at first
        if step % max(1, options.steps // 5) == 0:
            shown = ", ".join(f"{name} {loss:.6f}" for name, loss in losses.items())
            print(f"step {step:,}: loss of {shown}", flush=True)
    test = generator.draw(TEST_SAMPLES)
    for name, model in models.items():
        score = model.logits(tf.constant(test.users), tf.constant(test.items)).numpy()
        speed = (options.steps - 1) * BATCH / seconds[name] if seconds[name] else 0
        print(f"{name}: test AUC {auc(test.click, score):.4f}, {speed:,.0f} samples/s")
    print(f"The best possible AUC is {auc(test.click, test.probability):.4f}.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
