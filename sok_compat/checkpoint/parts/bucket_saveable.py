# SPDX-License-Identifier: Apache-2.0
"""`BucketSaveable`: a table and its slots in a tf.train.Saver, in DeepRec's layout."""

from __future__ import annotations

from collections.abc import Sequence

from sok_compat.checkpoint.parts.names_of_parts import around_part
from sok_compat.checkpoint.parts.rows_saveable import RowsSaveable
from sok_compat.runtime.settings import RESTORE_OTHER_WIDTHS, SAVE_FILTERED_KEYS
from sok_compat.tables.slots.slot_variable import SlotVariable
from sok_compat.tables.stored.table_part import NUM_BUCKETS, TablePart
from sok_compat.tables.table import Table


class BucketSaveable(RowsSaveable):
    """A table's contents as nine tensors for the table and for each of its slots.

    The n keys are sorted by bucket, floormod(key, 1000), and ascending in each; slots have the same
    keys in the same order. X is the name of the table or slot:
      X-keys: [n], of the table's key_dtype_of_ids.
      X-values: float32 [n, width].
      X-versions, X-freqs: int64 [n]; [0] if they are not recorded.
      X-keys_filtered, X-versions_filtered, X-freqs_filtered: [m], of keys without a row; none with
        TF_EV_SAVE_FILTERED_FEATURES=False.
      X-partition_offset, X-partition_filter_offset: int32 [1001], the start of each bucket.
    In addition to DeepRec's tensors, X-seed-versions, int64, of a table whose initial rows are
    random, seeds those of later keys.

    Each rank saves the keys that it owns as a part: rank r of N saves part p of P as
    X/part_<p * N + r>. Restoring replaces the table's contents by the keys of the checkpoint that
    the rank owns, or those of them in the buckets of its part; the checkpoint may have any number
    of parts. Keys without a saved slot row get the slot's initial value. With
    TF_EV_RESTORE_CUSTOM_DIM=True rows and slots may have another width than saved: the columns that
    both have are restored, others start as in a new key's row; in DeepRec as in the i-th default
    row, of the i-th key (embedding_var_restore.h, RestoreCustomDim). The table need not be
    initialized. If something does not fit, all ranks keep their contents.

    This class uses, beyond a Table's common attributes:
      key_dtype_of_ids: tf.int64 or tf.int32.
      part: its TablePart; None if it is whole.
      before_save(): an op that runs before the table is read, or None.
    """

    def __init__(
        self,
        table: Table,
        name: str,
        slot_names: Sequence[str | None] | None = None,
        slots: Sequence[SlotVariable] | None = None,
    ) -> None:
        """As RowsSaveable; a slot whose name is None may be missing from a restored checkpoint."""
        super().__init__(table, name, slot_names, slots=slots)
        self._slot_is_required = [x is not None for x in slot_names or [None] * len(self.slots)]
        wholes = name, table.table_name
        self._heads, self._tails = zip(
            *(around_part(x, wholes, table.storage.part) for x in (name, *self._slot_titles))
        )

    def _names_to_save(self):
        part, ranks = self.table.storage.part, self.table.ranks
        suffix = part.suffix if part else ""
        if ranks.size > 1:
            number = part.index if part else 0
            suffix = TablePart(number * ranks.size + ranks.rank, 0).suffix
        return {
            "table_name": self.name,
            "titles": [head + suffix + tail for head, tail in zip(self._heads, self._tails)],
            "num_buckets": NUM_BUCKETS,
            "saves_waiting_keys": SAVE_FILTERED_KEYS.value(),
            "Tkey": self.table.key_dtype_of_ids,
        }

    def _names_to_read(self):
        part = self.table.storage.part or TablePart(0, 1)
        return {
            "table_name": self._heads[0],
            "titles": self._heads,
            "tails": self._tails,
            "slot_is_required": self._slot_is_required,
            "num_buckets": NUM_BUCKETS,
            "num_parts": part.count,
            "part": part.index,
            "fits_rows": RESTORE_OTHER_WIDTHS.value(),
            "Tkey": getattr(self.table, "key_dtype_of_ids", self.table.key_dtype),
        }
