# SPDX-License-Identifier: Apache-2.0
"""What layers of `tf.contrib.layers` have in common: variables, outputs, conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Optional, Union

import tensorflow.compat.v1 as tf

from sok_compat.deeprec.columns.embedding_columns import collections_with

Activation = Optional[Callable[[tf.Tensor], tf.Tensor]]
Collections = Optional[Union[Iterable[str], Mapping[str, Iterable[str]]]]  # or for each variable
OutputCollections = Optional[Union[str, Iterable[str]]]


def variable(
    name: str,
    shape: Any,
    initializer: Any,
    dtype: tf.DType,
    collections: Collections,
    trainable: bool,
    regularizer: Any = None,
) -> tf.Variable:
    """Makes or finds a variable of a layer in the current variable scope."""
    given = collections.get(name) if isinstance(collections, Mapping) else collections
    return tf.get_variable(
        name,
        shape,
        dtype,
        initializer,
        regularizer,
        trainable,
        collections_with(given),
    )


def activated(
    outputs: tf.Tensor, activation_fn: Activation, collections: OutputCollections
) -> tf.Tensor:
    """The outputs of a layer, after its activation, put into collections."""
    if activation_fn is not None:
        outputs = activation_fn(outputs)
    if collections:
        tf.add_to_collections(collections, outputs)
    return outputs


def constant_bool(condition: Any) -> bool | None:
    """The value of a bool, or of a tensor if it is known while the graph is built; else None."""
    if isinstance(condition, tf.Variable):
        return None
    value = tf.get_static_value(condition) if tf.is_tensor(condition) else condition
    return None if value is None else bool(value)


def either(condition: Any, if_true: Callable[[], Any], if_false: Callable[[], Any]) -> Any:
    """tf.cond, or only one branch where the condition is known while the graph is built."""
    value = constant_bool(condition)
    if value is None:
        return tf.cond(condition, if_true, if_false)
    return if_true() if value else if_false()


def refuse(layer: str, **arguments: Any) -> None:
    """Raises NotImplementedError for the first of these arguments that is set."""
    for name, value in arguments.items():
        if value is not None and value is not False:
            raise NotImplementedError(
                f"tf.contrib.layers.{layer} of sok_compat has no {name}, got {value!r}: leave it "
                "out"
            )
