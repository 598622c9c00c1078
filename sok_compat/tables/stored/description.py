# SPDX-License-Identifier: Apache-2.0
"""What an exported graph says of a table, so that savers of the imported graph can save it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from sok_compat.runtime.tf_versions import members

if TYPE_CHECKING:
    from sok_compat.tables.table import Table

_ATTRIBUTE = "_sok_compat_description"  # of the op of the table's handle
ROWS, BUCKETS, PARTS = "rows", "buckets", "parts"  # layouts


def describe_in_graph(table: Table, layout: str = ROWS, **more: Any) -> None:
    """Adds what savers need to know of a table, beyond its ops, to its graph; not in eager mode.

    Args:
      table: the Table.
      layout: how it is stored: ROWS, BUCKETS or PARTS.
      **more: of a table in BUCKETS; values that JSON holds.
    """
    if tf.is_symbolic_tensor(table.table_handle):
        known = {"layout": layout, "kind": table.kind(), "key_dtype": table.key_dtype.name, **more}
        text = json.dumps(known).encode()
        members.set_attribute(table.table_handle.op, _ATTRIBUTE, tf.compat.v1.AttrValue(s=text))


def description_of(table_handle: tf.Tensor) -> dict[str, Any]:
    """What describe_in_graph has added; {} if nothing."""
    try:
        return json.loads(table_handle.op.get_attr(_ATTRIBUTE))
    except ValueError:  # a graph that was exported without it
        return {}
