# SPDX-License-Identifier: Apache-2.0
"""A checkpoint's entry in its series, stored as a tensor of strings. No TensorFlow."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sok_compat.checkpoint.files.file_error import FileError

SERIES = "sok_compat/series"
INCREMENT = ".increment"  # suffix of the names in a whole checkpoint
GONE = "/gone.increment"  # suffix of a table's name: its removed keys
GONE_OF_BUCKETS = f"{INCREMENT}-gone"  # the same in DeepRec's layout


@dataclasses.dataclass(frozen=True)
class SeriesEntry:
    """The entry of one checkpoint.

    Attributes:
      id: unique to this checkpoint.
      base_name: name of the checkpoint, in the same folder, that it is an increment of; None if it
        is whole.
      base_id: the id of that checkpoint.
    """

    id: str
    base_name: str | None = None
    base_id: str | None = None

    @classmethod
    def parse(cls, texts: Sequence[bytes], path: str) -> SeriesEntry:
        """The entry in the tensor SERIES.

        Args:
          texts: values of the tensor.
          path: of the checkpoint, for messages.

        Raises:
          FileError: the values are not an entry.
        """
        if len(texts) not in (1, 3):
            raise FileError(f"{path}.index has {len(texts)} texts in {SERIES}, expected 1 or 3")
        try:
            entry = cls(*(text.decode() for text in texts))
        except UnicodeDecodeError as error:
            raise FileError(f"{path}.index: {SERIES} is not UTF-8: {error}") from error
        name = entry.base_name
        if name is not None and (not name or "/" in name):
            raise FileError(
                f"{path}.index is an increment of {name!r}, which is not a name in its folder"
            )
        return entry
