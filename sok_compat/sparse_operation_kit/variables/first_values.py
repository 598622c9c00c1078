# SPDX-License-Identifier: Apache-2.0
"""First values of SparseOperationKit 2's variables."""

from __future__ import annotations

import json
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from sok_compat.runtime.tf_versions import Variable
from sok_compat.tables.first_value import FirstValue, parse_initializer
from sok_compat.tables.placement import Placement

_OF_STRINGS = {
    "normal": FirstValue("normal", 0.0, 1.0),
    "uniform": FirstValue("uniform", 0.0, 1.0),
    "ones": FirstValue("constant", 1.0),
    "zeros": FirstValue("constant", 0.0),
}
_RANDOM = {
    "hbm": FirstValue("uniform", -0.05, 0.05),
    "hybrid": FirstValue("normal", 0.0, 1.0),
}


def first_value_of_keys(
    initializer: Any, var_type: str, shape: Sequence[int], called: str
) -> FirstValue:
    """Returns the first value of a DynamicVariable's rows.

    Args:
      initializer: None, '' or 'random' (by var_type), 'random {"mean": .., "stddev": ..}' (a
        normal distribution, as EasyRec writes it), 'normal', 'uniform', 'ones', 'zeros', a number
        or its text, a variable (its first element), or what `parse_initializer` takes.
      var_type: 'hbm' or 'hybrid'.
      shape: [rows, dim], for initializers that depend on the number of rows.
      called: the initializer's name in messages.

    Raises:
      ValueError: the initializer is none of these.
    """
    if initializer is None or (isinstance(initializer, str) and initializer in ("", "random")):
        return _RANDOM[var_type]
    if isinstance(initializer, str) and initializer in _OF_STRINGS:
        return _OF_STRINGS[initializer]
    if isinstance(initializer, str) and initializer.startswith("random {"):
        return _normal_of(initializer, called)
    if isinstance(initializer, Variable):
        return _of_variable(initializer)
    number = _number_in(initializer)
    if number is not None:
        return FirstValue("constant", number)
    return parse_initializer(initializer, shape, called=called)


def _normal_of(text: str, called: str) -> FirstValue:
    try:
        given = {name: float(each) for name, each in json.loads(text[len("random ") :]).items()}
        is_known = given.keys() <= {"mean", "stddev"}
    except (TypeError, ValueError):
        is_known = False
    if not is_known:
        raise ValueError(
            f'{called} must be random {{"mean": number, "stddev": number}}, got {text!r}'
        )
    return FirstValue("normal", given.get("mean", 0.0), given.get("stddev", 1.0))


def _of_variable(variable: tf.Variable) -> FirstValue:
    def filled(shape, dtype):
        return tf.fill(shape, tf.cast(tf.reshape(variable, [-1])[0], dtype))

    return FirstValue("evaluated", initializer=filled)


def _number_in(initializer: Any) -> float | None:
    if isinstance(initializer, (numbers.Real, str)):
        try:
            return float(initializer)
        except ValueError:
            return None
    return None


def first_value_of_rank(
    whole: FirstValue, shape: Sequence[int], placement: Placement
) -> FirstValue:
    """Returns the first value of a static variable's rows on this rank.

    That of the whole variable [rows, dim] is of the kind 'preset' or a function of keys.
    """
    if whole.kind != "preset":
        return whole

    def rows_of_rank(given_shape, dtype):
        del dtype
        rows = whole.whole_table(shape)
        if placement.num_rows(shape[0]) == shape[0]:
            return rows  # not a copy: the table keeps them
        keys = np.arange(shape[0])
        rows = tf.gather(rows, keys[placement.is_owned(keys)])
        return tf.pad(rows, [[0, given_shape[0] - rows.shape[0]], [0, 0]])  # see StaticVariable

    return FirstValue("preset", initializer=rows_of_rank, called=whole.called)
