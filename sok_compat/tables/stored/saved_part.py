# SPDX-License-Identifier: Apache-2.0
"""`SavedPart`: the part of a larger array, in a checkpoint, that a table holds."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class SavedPart:
    """Rows and columns of a whole array, at consecutive keys of a table without a hash index.

    title: name of the whole array, also for slots.
    shape: (rows, columns) of the whole array.
    first_row, num_rows: of the part, in the whole array.
    first_column: of the part, in the whole array; the part is as wide as the table.
    first_key: the key of the part's first row.
    """

    title: str
    shape: tuple[int, int]
    first_row: int
    num_rows: int
    first_column: int
    first_key: int

    def slice_spec(self, width: int, begin: int = 0, end: int | None = None) -> str:
        """Returns TensorFlow's slice spec of rows [begin, end) of the part, of `width` columns."""
        end = self.num_rows if end is None else end
        rows, columns = self.shape
        return (
            f"{rows} {columns} {self.first_row + begin},{end - begin}:{self.first_column},{width}"
        )
