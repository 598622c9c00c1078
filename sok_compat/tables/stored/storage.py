# SPDX-License-Identifier: Apache-2.0
"""`Storage`: what checkpoints need to know of a table beyond its keys and rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from sok_compat.tables.stored.saved_part import SavedPart
from sok_compat.tables.stored.table_part import TablePart


@dataclasses.dataclass(eq=False)
class Storage:
    """How a table is stored; the rooms that make tables or save them set it.

    make_saveable: (table, name) -> its saveable in a tf.train.Checkpoint; for all tables. None:
      `checkpoint` has not been told to save tables.
    layout: a class of `checkpoint` that replaces its default one in tf.train.Saver.
    part: which part of a partitioned table it is; None: a whole one.
    parts: the parts of larger arrays that checkpoints hold instead of the table.
    owner: in a graph, the object whose saveable() saves these parts.
    described: what an exported graph records of it beyond a table in rows; JSON values.
    fill_slot: called with each slot that is made from now on.
    """

    make_saveable: ClassVar[Callable[[Any, str], Any] | None] = None
    layout: Any = None
    part: TablePart | None = None
    parts: Sequence[SavedPart] = ()
    owner: Any = None
    described: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    fill_slot: Callable[[Any], Any] | None = None
