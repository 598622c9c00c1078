# SPDX-License-Identifier: Apache-2.0
"""What a table without a hash index holds of larger arrays, by which checkpoints know its rows."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class SavedPart:
    """Rows and columns of a whole array, which a table has under keys that follow one another.

    title: of the whole array; of slots, too.
    shape: (rows, columns) of it.
    first_row, num_rows: of the part, in the whole.
    first_column: of the part, in the whole; it is as wide as the table.
    first_key: of its first row in the table.
    """

    title: str
    shape: tuple
    first_row: int
    num_rows: int
    first_column: int
    first_key: int

    def slice_spec(self, width, begin=0, end=None):
        """As TensorFlow writes that of rows [begin, end) of the part, `width` columns wide."""
        end = self.num_rows if end is None else end
        rows, columns = self.shape
        return (
            f"{rows} {columns} {self.first_row + begin},{end - begin}:{self.first_column},{width}"
        )
