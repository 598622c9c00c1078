# SPDX-License-Identifier: Apache-2.0
"""Initializers, turned into what a row holds when its key first comes."""

import contextlib
import dataclasses
import math
import threading
from typing import Callable, Optional

import numpy as np
import tensorflow as tf

from sok_compat.runtime.tf_versions import Variable, keras

# Keras draws truncated normals whose own deviation is this much below stddev (its VarianceScaling).
_TRUNCATED_DEVIATION = 0.87962566103423978


@dataclasses.dataclass(frozen=True)
class FirstValue:
    """What a row holds when its key first comes.

    kind:
      'uniform', 'normal', 'truncated_normal', 'constant': a function of (seed, table name, key,
        column), whenever and in whatever company the key comes.
      'evaluated': `initializer` is run for the keys of a step that are new.
      'preset': `initializer` is run once for the whole table; the n-th key gets the n-th row
        (without a hash index: key n).
    """

    kind: str
    low_or_mean: float = 0.0
    high_or_stddev: float = 0.0
    seed: Optional[int] = None  # the initializer's own, if it has one
    initializer: Optional[Callable] = None
    period: Optional[int] = None  # a key starts as the key floormod(key, period) does
    name: Optional[str] = None  # of the table that keys start as in; None: their own
    rows: Optional[tf.Variable] = None  # [period, dim]: of 'evaluated', in the initializer's place
    called: str = "the initializer of a table"  # the initializer, in messages

    def __str__(self):
        numbers = [self.low_or_mean, self.high_or_stddev, self.seed]
        words = [self.kind, *(str(number) for number in numbers if number is not None)]
        return " ".join(words if self.period is None else [*words, f"period {self.period}"])

    def whole_table(self, shape):
        """What a 'preset' table's initializer gives for its `shape`, float32.

        Raises:
          ValueError: it raises, or gives something else.
        """
        try:
            values = self.evaluate(shape)
        except Exception as error:  # noqa: BLE001  whatever a foreign initializer raises
            raise ValueError(
                f"{self.called} must give numbers for (shape={shape}, dtype=tf.float32); "
                f"{self.initializer!r} failed: {error}"
            ) from error
        if not values.shape.is_compatible_with(shape):
            raise ValueError(
                f"{self.called} must give the shape that it is asked for, {shape}; "
                f"{self.initializer!r} gave {values.shape}"
            )
        return values

    @property
    def is_given(self):
        """Whether the op library is given the rows of keys that are not in the table."""
        return self.kind == "evaluated"

    @property
    def op_kind(self):
        """The kind as the op library knows it: it is given the rows that are 'evaluated'."""
        return "constant" if self.kind == "evaluated" else self.kind

    def evaluate(self, shape):
        """What `initializer` gives for a shape [n, dim], as float32.

        Raises:
          TypeError: it gives no real numbers.
        """
        return _as_floats(self.initializer(shape, dtype=tf.float32))


_building = threading.local()  # .first_value: of all tables that are made


@contextlib.contextmanager
def all_rows_start_as(first_value):
    """A context in which tables are made with that FirstValue, whatever their initializers."""
    before = getattr(_building, "first_value", None)
    _building.first_value = first_value
    try:
        yield
    finally:
        _building.first_value = before


def _as_floats(values):
    values = tf.convert_to_tensor(values)
    if not (values.dtype.is_floating or values.dtype.is_integer or values.dtype.is_bool):
        raise TypeError(f"it gave {values.dtype.name}, not real numbers")
    return tf.cast(values, tf.float32)


def parse_initializer(initializer, shape, use_hash_index=True, called=FirstValue.called):
    """The FirstValue that an initializer asks for.

    Args:
      initializer: None (uniform in [-0.05, 0.05)), a name that Keras knows, or a Keras or TF1
        initializer: a callable of (shape, dtype). Or a FirstValue, which is the answer.
      shape: of the whole table, [capacity, dim]; without a capacity [None, dim].
      use_hash_index: False: all rows are there from the start, so none is evaluated later.
      called: what messages call the initializer.

    Raises:
      ValueError: it stands for no initializer, or goes by a number of rows that is unknown.
    """
    first_value = getattr(_building, "first_value", None)
    if first_value is not None:
        return first_value
    if isinstance(initializer, FirstValue):
        return initializer
    if initializer is None:
        return FirstValue("uniform", -0.05, 0.05)
    if not callable(initializer) or isinstance(initializer, (str, type)):
        initializer = _known_to_keras(initializer, called)
    if shape[0] is None and _goes_by_number_of_rows(initializer):
        raise ValueError(
            f"{called} {initializer!r} goes by the number of rows: the table needs a capacity, got "
            "None"
        )
    pure = _as_pure_function(initializer, shape)
    return pure or _as_evaluated(initializer, shape, use_hash_index, called)


def _goes_by_number_of_rows(initializer):
    is_scaled = type(initializer).__name__ == "UniformUnitScaling"
    return is_scaled or getattr(initializer, "mode", None) in ("fan_in", "fan_avg")


def _known_to_keras(initializer, called):
    """The initializer that a name, a class or a configuration stands for."""
    try:
        found = keras.initializers.get(initializer)
    except (TypeError, ValueError) as error:
        raise ValueError(_must_be(initializer, called)) from error
    if not callable(found) or isinstance(found, type):
        raise ValueError(_must_be(initializer, called))
    return found


def _must_be(initializer, called):
    is_value = isinstance(initializer, (int, float, list, tuple, np.ndarray, tf.Tensor, Variable))
    what = type(initializer).__name__ if is_value else repr(initializer)
    return (
        f"{called} must be None, a name that Keras knows, or a callable of (shape, dtype), got "
        f"{what}"
        + ("; for values of your own: tf.constant_initializer(values)" if is_value else "")
    )


def _as_pure_function(initializer, shape):
    """For the stock distributions, whose parameters are known; None for everything else."""
    kind = type(initializer)
    if kind.__module__.split(".")[0] not in ("tensorflow", "keras", "tf_keras"):
        return None
    try:
        if hasattr(initializer, "distribution"):  # VarianceScaling: Glorot, He, LeCun
            return _variance_scaling(initializer, shape)
        if kind.__name__ == "UniformUnitScaling":
            limit = math.sqrt(3.0 / shape[0]) * initializer.factor
            return _random("uniform", -limit, limit, initializer)
        if kind.__name__ == "RandomUniform":
            high = 1.0 if initializer.maxval is None else initializer.maxval
            return _random("uniform", initializer.minval, high, initializer)
        if kind.__name__ in ("RandomNormal", "TruncatedNormal"):
            name = "normal" if kind.__name__ == "RandomNormal" else "truncated_normal"
            return _random(name, initializer.mean, initializer.stddev, initializer)
        if kind.__name__ == "Constant":
            value = np.asarray(initializer.value)
            return FirstValue("constant", float(value)) if value.ndim == 0 else None
    except (TypeError, ValueError):  # a parameter that is a tensor
        return None
    constants = {"Zeros": 0.0, "Ones": 1.0}
    return FirstValue("constant", constants[kind.__name__]) if kind.__name__ in constants else None


def _random(kind, first, second, initializer):
    seed = getattr(initializer, "seed", None)
    if hasattr(initializer, "_init_seed"):  # Keras 3 draws a seed where it was given none
        seed = initializer._init_seed
    return FirstValue(kind, float(first), float(second), None if seed is None else int(seed))


def _variance_scaling(initializer, shape):
    fan_in, fan_out = shape
    if initializer.mode == "fan_avg":
        fan = (fan_in + fan_out) / 2
    else:
        fan = fan_in if initializer.mode == "fan_in" else fan_out
    variance = initializer.scale / max(1.0, fan)
    if initializer.distribution == "uniform":
        limit = math.sqrt(3.0 * variance)
        return _random("uniform", -limit, limit, initializer)
    if initializer.distribution == "untruncated_normal":
        return _random("normal", 0.0, math.sqrt(variance), initializer)
    return _random("truncated_normal", 0.0, math.sqrt(variance) / _TRUNCATED_DEVIATION, initializer)


def _as_evaluated(initializer, shape, use_hash_index, called):
    """'evaluated' if rows come with keys and the initializer can make any number, else 'preset'."""
    if not use_hash_index:
        return FirstValue("preset", initializer=initializer, called=called)
    has_values_of_its_own = np.ndim(getattr(initializer, "value", 0.0)) > 0
    can_make_any_number = not has_values_of_its_own and _takes_unknown_number(initializer, shape[1])
    kind = "evaluated" if can_make_any_number else "preset"
    return FirstValue(kind, initializer=initializer, called=called)


def _takes_unknown_number(initializer, dim):
    def first_rows(num_rows):
        return _as_floats(initializer(tf.stack([num_rows, dim]), dtype=tf.float32))

    try:
        if tf.executing_eagerly():  # a function may use what the initializer has, a graph may not
            trace = tf.function(first_rows, autograph=False).get_concrete_function
            shape = trace(tf.TensorSpec([], tf.int32)).outputs[0].shape
        else:
            with tf.Graph().as_default():
                shape = first_rows(tf.compat.v1.placeholder(tf.int32, [])).shape
    except Exception:  # noqa: BLE001  whatever a foreign initializer raises: it wants a known shape
        return False
    # A number of rows that is known is a table of its own, whatever was asked for.
    return shape.rank is None or (
        shape.is_compatible_with([None, dim]) and shape.as_list()[0] is None
    )
