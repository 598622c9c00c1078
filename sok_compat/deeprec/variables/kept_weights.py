# SPDX-License-Identifier: Apache-2.0
"""`tf.variable_scope(...).keep_weights()`: full-precision weights for a low-precision model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf


class VariableScope(tf.variable_scope):
    """As tf.compat.v1.variable_scope. API of DeepRec."""

    def keep_weights(self, dtype: tf.DType = tf.float32) -> _KeptWeights:
        """The scope as a context that keeps variables of other float dtypes as `dtype`.

        A model that asks for a tf.bfloat16 variable, for example, gets the cast of a variable of
        `dtype`, which is trained and saved.
        """
        return _KeptWeights(self, tf.as_dtype(dtype))


class _KeptWeights:
    def __init__(self, scope: tf.variable_scope, dtype: tf.DType) -> None:
        self._scope = scope
        self._dtype = dtype

    def __enter__(self) -> tf.VariableScope:
        entered = self._scope.__enter__()
        entered.set_custom_getter(_kept(entered.custom_getter, self._dtype))
        return entered

    def __exit__(self, *exception: Any) -> bool | None:
        return self._scope.__exit__(*exception)


def _kept(before: Callable[..., Any] | None, kept_dtype: tf.DType) -> Callable[..., Any]:
    """A custom getter around the scope's own, if any."""

    def get(getter, *args, dtype=None, **kwargs):
        requested = tf.as_dtype(tf.float32 if dtype is None else dtype)
        is_kept = requested.is_floating and requested != kept_dtype
        kwargs["dtype"] = kept_dtype if is_kept else dtype
        variable = before(getter, *args, **kwargs) if before else getter(*args, **kwargs)
        return tf.cast(variable, requested) if is_kept else variable

    return get
