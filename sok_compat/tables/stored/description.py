# SPDX-License-Identifier: Apache-2.0
"""What an exported graph records of tables and variables, for savers of the imported graph."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sok_compat.runtime.tf_versions import members
from sok_compat.tables.interface import TableInterface

_ATTRIBUTE = "_sok_compat_description"  # of the op of the handle
ROWS, BUCKETS, PARTS = "rows", "buckets", "parts"  # layouts


def describe_in_graph(table: TableInterface) -> None:
    """Adds what savers need to know of a table, beyond its ops, to its graph; not in eager mode."""
    own = {"layout": ROWS, "kind": table.kind(), "key_dtype": table.key_dtype.name}
    describe(table.table_handle, {**own, **table.storage.described})


def set_value_if_not_saved(variable: tf.Variable, value: float) -> None:
    """Gives a companion of tables, a resource variable, this value if a restored checkpoint lacks
    it; in graphs."""
    if hasattr(variable, "handle"):
        describe(variable.handle, {"value_if_not_saved": value})


def describe(handle: tf.Tensor, known: Mapping[str, Any]) -> None:
    """Adds to what the graph records of a table or variable, as JSON values; "op" is its
    name here, to which an import adds a scope."""
    if tf.is_symbolic_tensor(handle):
        text = json.dumps({**description_of(handle), **known, "op": handle.op.name}).encode()
        members.set_attribute(handle.op, _ATTRIBUTE, tf.compat.v1.AttrValue(s=text))


def description_of(handle: tf.Tensor) -> dict[str, Any]:
    """What was added to the graph of a table or variable; {} if nothing."""
    try:
        return json.loads(handle.op.get_attr(_ATTRIBUTE))
    except ValueError:  # nothing, or a graph that was exported without it
        return {}
