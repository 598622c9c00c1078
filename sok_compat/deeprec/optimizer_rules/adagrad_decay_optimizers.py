# SPDX-License-Identifier: Apache-2.0
"""DeepRec's Adagrad with decaying accumulators, for embedding variables and ordinary variables."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import numpy as np
import tensorflow as tf

from sok_compat.deeprec.optimizer_rules.ordinary_updates import ActsFirst
from sok_compat.deeprec.optimizer_rules.stock_optimizers import AdagradOptimizer
from sok_compat.deeprec.variables.embedding_variable import EmbeddingVariable
from sok_compat.runtime.known_words import raise_for_unknown_words
from sok_compat.tables.stored.description import set_value_if_not_saved
from sok_compat.training.update_lock import alone

_UNKNOWN = -1  # number of decays in a checkpoint that does not store it: assumed up to date


class AdagradDecayOptimizer(ActsFirst, AdagradOptimizer):
    """Adagrad whose accumulators decay every accumulator_decay_step steps. API of DeepRec.

    Before the update that raises the global step to k * accumulator_decay_step, or the first one
    after it, all accumulators of a variable, with or without a gradient, become accumulator *
    accumulator_decay_rate, but at least initial_accumulator_value. For an embedding variable this
    is one pass over the rows in use; all other steps touch their own rows only. In DeepRec
    (adagrad_decay.py, training_ali_ops.cc) a row decays when its key comes next, by one power of
    the rate. The scalar slot '<variable>/<name>/decays' counts decays.
    """

    def __init__(
        self,
        learning_rate: Any,
        global_step: tf.Variable | tf.Tensor,
        initial_accumulator_value: float = 0.1,
        accumulator_decay_step: int = 100000,
        accumulator_decay_rate: float = 0.9,
        use_locking: bool = False,
        name: str = "AdagradDecay",
    ) -> None:
        """As tf.compat.v1.train.AdagradOptimizer, and:

        Args:
          learning_rate: a number, a scalar tensor, or a callable that returns one.
          global_step: the variable or integer tensor that counts steps, from 0.
          initial_accumulator_value: initial value and minimum of accumulators, above 0.
          accumulator_decay_step: steps between decays, at least 1.
          accumulator_decay_rate: above 0, at most 1.
          use_locking: whether concurrent steps update a variable one after the other.
          name: name of the optimizer.

        Raises:
          ValueError: a number out of range, or no global_step.
        """
        super().__init__(learning_rate, initial_accumulator_value, use_locking, name)
        if global_step is None:
            raise ValueError(
                f"{name} needs global_step, got None: pass tf.train.get_or_create_global_step()"
            )
        if accumulator_decay_step < 1:
            raise ValueError(
                f"accumulator_decay_step must be at least 1, got {accumulator_decay_step}"
            )
        if not 0 < accumulator_decay_rate <= 1:
            raise ValueError(
                "accumulator_decay_rate must be above 0 and at most 1, got "
                f"{accumulator_decay_rate}"
            )
        self._global_step = global_step
        self._decay_step, self._decay_rate = accumulator_decay_step, accumulator_decay_rate

    def _create_slots(self, var_list):
        super()._create_slots(var_list)
        for variable in var_list:
            none_yet = tf.zeros([], tf.int64)
            decays = self._get_or_make_slot(variable, none_yet, "decays", f"{self._name}/decays")
            set_value_if_not_saved(decays, _UNKNOWN)  # DeepRec's checkpoints do not have it
        self._decaying = list(var_list)

    def _prepare(self):
        super()._prepare()
        step, period = tf.cast(self._global_step, tf.int64), int(self._decay_step)
        self._due, self._due_before = (step + 1) // period, step // period
        done = tf.stack([self.get_slot(each, "decays").read_value() for each in self._decaying])
        is_due = tf.reduce_any(tf.not_equal(done, self._due))
        self._decayed = tf.group(tf.compat.v1.cond(is_due, self._decay_all, tf.no_op))

    def before_update(self, variable: tf.Variable, indices: tf.Tensor | None) -> tf.Operation:
        """See the base class; one check for all variables."""
        del variable, indices
        return self._decayed

    def _finish(self, update_ops, name_scope):
        with tf.control_dependencies([self._decayed]):
            return super()._finish(update_ops, name_scope)

    def _decay_all(self):
        return tf.group(*map(self._decay_under_lock, self._decaying))

    def _decay_under_lock(self, variable):
        if self._use_locking and isinstance(variable, EmbeddingVariable):
            return alone(variable, lambda: self._decay(variable), [self._due])
        return self._decay(variable)

    def _decay(self, variable):
        """Decays all accumulators as often as is due: never if an earlier step was restored."""
        decays, accumulator = (self.get_slot(variable, name) for name in ("decays", "accumulator"))
        done = decays.read_value()
        done = tf.where(tf.equal(done, _UNKNOWN), self._due_before, done)
        missed = tf.maximum(self._due - done, 0)
        rate = tf.pow(self._decay_rate, tf.cast(missed, tf.float32))
        least = tf.where(missed > 0, self._initial_accumulator_value, -np.inf)
        if isinstance(variable, EmbeddingVariable):
            with tf.device(variable.device):
                rule = self._applied("decay", [accumulator], {"rate": rate, "least": least})
                rule = dataclasses.replace(rule, use_locking=False, rows_to_update="in_use")
                nothing = tf.zeros([0, variable.dim]), tf.zeros([0], tf.int64)
                decayed = rule.apply(variable, *nothing)
        else:
            shrunk = accumulator.read_value() * tf.cast(rate, accumulator.dtype.base_dtype)
            decayed = accumulator.assign(
                tf.maximum(shrunk, tf.cast(least, shrunk.dtype)), use_locking=self._use_locking
            )
        with tf.control_dependencies([decayed]):
            return tf.group(decays.assign(self._due, use_locking=self._use_locking))


class AdagradDecayOptimizerV2(AdagradDecayOptimizer):
    """AdagradDecayOptimizer under another name. API of DeepRec.

    DeepRec documents no difference in results.
    """

    def __init__(self, *args: Any, name: str = "AdagradDecayV2", **kwargs: Any) -> None:
        """Makes the optimizer.

        Args:
          *args, **kwargs: see AdagradDecayOptimizer.
          name: of the optimizer and its slots.
        """
        signature = inspect.signature(super().__init__)
        raise_for_unknown_words(type(self).__name__, kwargs, signature.parameters)
        given = signature.bind(*args, **kwargs).arguments
        super().__init__(**{"name": name, **given})
