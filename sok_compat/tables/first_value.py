# SPDX-License-Identifier: Apache-2.0
"""`FirstValue`: the initial contents of rows, parsed from an initializer."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable, Union

import numpy as np
import tensorflow as tf

from sok_compat.runtime.tf_versions import Variable, members
from sok_compat.runtime.tf_versions import keras_of_layers as keras

# Keras draws truncated normals whose own deviation is this much below stddev (its VarianceScaling).
_TRUNCATED_DEVIATION = 0.87962566103423978


@dataclasses.dataclass(frozen=True)
class FirstValue:
    """The initial contents of rows.

    kind:
      'uniform', 'normal', 'truncated_normal', 'constant': a function of (seed, table name, key,
        column), independent of when a key comes and of the keys beside it.
      'evaluated': `initializer` runs for the new keys of each step.
      'preset': `initializer` runs once for the whole table; the n-th key gets the n-th row
        (without a hash index: key n).
      'rows': key k gets rows[floormod(k, period)], which the table's initializer reads.
    """

    kind: str
    low_or_mean: float = 0.0
    high_or_stddev: float = 0.0
    seed: int | None = None  # the initializer's own, if it has one
    initializer: Any = None  # of 'evaluated' and 'preset': a callable of (shape, dtype)
    period: int | None = None  # a key starts as floormod(key, period) would
    name: str | None = None  # of the table whose initial rows these are; None: their own
    rows: tf.Tensor | None = None  # float32 [period, dim], of 'rows'
    called: str = "the initializer of a table"  # the initializer's name in messages

    def __str__(self) -> str:
        numbers = [self.low_or_mean, self.high_or_stddev, self.seed]
        words = [self.kind, *(str(number) for number in numbers if number is not None)]
        return " ".join(words if self.period is None else [*words, f"period {self.period}"])

    def whole_table(self, shape: Sequence[int | None]) -> tf.Tensor:
        """Returns the float32 rows of a 'preset' table of this shape.

        Raises:
          ValueError: the initializer raises, or returns something else.
        """
        try:
            values = self.evaluate(shape)
        except Exception as error:  # noqa: BLE001  whatever a foreign initializer raises
            raise ValueError(
                f"{self.called} must return numbers for (shape={shape}, dtype=tf.float32); "
                f"{self.initializer!r} failed: {error}"
            ) from error
        if not values.shape.is_compatible_with(shape):
            raise ValueError(
                f"{self.called} must return values of the requested shape {shape}; "
                f"{self.initializer!r} returned {values.shape}"
            )
        return values

    @property
    def is_given(self) -> bool:
        """Whether the op library receives the rows of new keys instead of computing them."""
        return self.kind == "evaluated"

    def op_attributes(self) -> dict[str, Any]:
        """Attributes of SokTableInitialize; the op library receives 'evaluated' rows."""
        return {
            "first_value": "constant" if self.is_given else self.kind,
            "low_or_mean": self.low_or_mean,
            "high_or_stddev": self.high_or_stddev,
            "first_value_period": self.period or 0,
            "first_value_name": self.name or "",
        }

    def evaluate(self, shape: tf.Tensor | Sequence[int | None]) -> tf.Tensor:
        """Returns the initializer's values of a shape [n, dim], as float32.

        Raises:
          TypeError: they are not real numbers.
        """
        return _as_floats(self.initializer(shape, dtype=tf.float32))


# What makes the rows of a table. None: the default; a string: a name that Keras knows; a mapping:
# the configuration of a Keras initializer.
Initializer = Union[str, type, Mapping[str, Any], Callable[..., Any], FirstValue, None]

_building = threading.local()  # .first_value: that of all tables being made


@contextlib.contextmanager
def all_rows_start_as(first_value: FirstValue) -> Iterator[None]:
    """Context in which all tables get this FirstValue, whatever their initializers."""
    before = getattr(_building, "first_value", None)
    _building.first_value = first_value
    try:
        yield
    finally:
        _building.first_value = before


def _as_floats(values: Any) -> tf.Tensor:
    values = tf.convert_to_tensor(values)
    if not (values.dtype.is_floating or values.dtype.is_integer or values.dtype.is_bool):
        raise TypeError(f"it returned {values.dtype.name}, not real numbers")
    return tf.cast(values, tf.float32)


def parse_initializer(
    initializer: Initializer,
    shape: Sequence[int | None],
    use_hash_index: bool = True,
    called: str = FirstValue.called,
) -> FirstValue:
    """Returns the FirstValue of an initializer.

    Args:
      initializer: None (uniform in [-0.05, 0.05)), a name that Keras knows, a Keras or TF1
        initializer (a callable of (shape, dtype)), or a FirstValue, which is returned as it is.
      shape: of the whole table, [capacity, dim]; without a capacity [None, dim].
      use_hash_index: False: all rows exist from the start, so none is evaluated later.
      called: the initializer's name in messages.

    Raises:
      ValueError: it is not an initializer, or depends on an unknown number of rows.
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
            f"{called} {initializer!r} depends on the number of rows: the table needs a capacity, "
            "got None"
        )
    pure = _as_pure_function(initializer, shape)
    return pure or _as_evaluated(initializer, shape, use_hash_index, called)


def _goes_by_number_of_rows(initializer: Initializer) -> bool:
    is_scaled = type(initializer).__name__ == "UniformUnitScaling"
    return is_scaled or getattr(initializer, "mode", None) in ("fan_in", "fan_avg")


_VALUES = (int, float, list, tuple, np.ndarray, tf.Tensor, Variable)


def _known_to_keras(initializer: Initializer, called: str) -> Callable:
    """Returns the initializer that a name, class or configuration denotes."""
    if isinstance(initializer, _VALUES):  # of which Keras 3 makes an initializer
        raise ValueError(_must_be(initializer, called))
    try:
        found = keras.initializers.get(initializer)
    except (KeyError, TypeError, ValueError) as error:  # Keras 3's Constant has no name
        raise ValueError(_must_be(initializer, called)) from error
    if not callable(found) or isinstance(found, type):
        raise ValueError(_must_be(initializer, called))
    return found


def _must_be(initializer: Initializer, called: str) -> str:
    is_value = isinstance(initializer, _VALUES)
    what = type(initializer).__name__ if is_value else repr(initializer)
    return (
        f"{called} must be None, a name that Keras knows, or a callable of (shape, dtype), got "
        f"{what}" + ("; for given values, use tf.constant_initializer(values)" if is_value else "")
    )


def _as_pure_function(initializer, shape):
    """Returns the FirstValue of a stock distribution with known parameters; None for all others."""
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


def _random(kind: str, first: float, second: float, initializer: Initializer) -> FirstValue:
    seed = members.drawn_seed(initializer)
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


def _as_evaluated(
    initializer: Callable, shape: Sequence[int | None], use_hash_index: bool, called: str
) -> FirstValue:
    """'evaluated' if rows come with keys and the initializer can make any number, else 'preset'."""
    if not use_hash_index:
        return FirstValue("preset", initializer=initializer, called=called)
    has_values_of_its_own = np.ndim(getattr(initializer, "value", 0.0)) > 0
    can_make_any_number = not has_values_of_its_own and _takes_unknown_number(initializer, shape[1])
    kind = "evaluated" if can_make_any_number else "preset"
    return FirstValue(kind, initializer=initializer, called=called)


def _takes_unknown_number(initializer: Callable, dim: int | None) -> bool:
    def first_rows(num_rows):
        return _as_floats(initializer(tf.stack([num_rows, dim]), dtype=tf.float32))

    try:
        if (
            tf.executing_eagerly()
        ):  # a function may capture the initializer's tensors, a graph may not
            trace = tf.function(first_rows, autograph=False).get_concrete_function
            shape = trace(tf.TensorSpec([], tf.int32)).outputs[0].shape
        else:
            with tf.Graph().as_default():
                shape = first_rows(tf.compat.v1.placeholder(tf.int32, [])).shape
    except Exception:  # noqa: BLE001  any error of a foreign initializer: it needs a known shape
        return False
    # An initializer that returns a known number of rows ignores the requested one.
    return shape.rank is None or (
        shape.is_compatible_with([None, dim]) and shape.as_list()[0] is None
    )
