# SPDX-License-Identifier: Apache-2.0
"""`tf.recompute_grad` of layers behind a lookup, in graphs.

Its gradient is a function with a custom gradient of its own, for which TensorFlow reads all
variables that the inputs come from, tables as a whole. That second gradient only raises.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from sok_compat.runtime import integrations

_GRADIENT_OF_RECOMPUTED = "inner_recompute_grad"  # TensorFlow's name of that function


def read_no_tables_to_recompute() -> None:
    """Makes TensorFlow compute the gradient of a recomputed function as plain ops, from now on."""
    integrations.apply("tf.recompute_grad, in graphs", _as_plain_ops)


def _as_plain_ops(decorate: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(decorate)
    def decorate_others(f, args, kwargs):
        is_gradient = getattr(f, "__name__", None) == _GRADIENT_OF_RECOMPUTED
        if is_gradient and not tf.compat.v1.get_default_graph().building_function:
            return f(*args, **kwargs)[0]
        return decorate(f, args, kwargs)

    return decorate_others
