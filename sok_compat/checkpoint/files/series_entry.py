# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint says of the series that it is of: a tensor of strings; no TensorFlow."""

import dataclasses
from typing import Optional

from sok_compat.checkpoint.files.file_error import FileError

SERIES = "sok_compat/series"
INCREMENT = ".increment"  # behind names that a whole checkpoint has
GONE = "/gone.increment"  # behind that of a table: keys that have no rows any more
GONE_OF_BUCKETS = f"{INCREMENT}-gone"  # likewise, in DeepRec's layout


@dataclasses.dataclass(frozen=True)
class SeriesEntry:
    """Of one checkpoint.

    Attributes:
      id: of this one, and no other.
      base_name: of the checkpoint in the same folder that it is an increment of; None: it is whole.
      base_id: of that one.
    """

    id: str
    base_name: Optional[str] = None
    base_id: Optional[str] = None

    @classmethod
    def parse(cls, texts, path):
        """
        Args:
          texts: a list of bytes.
          path: of the checkpoint, for messages.

        Raises:
          FileError: they are no such entry.
        """
        if len(texts) not in (1, 3):
            raise FileError(f"{path}.index has {len(texts)} texts in {SERIES}, expected 1 or 3")
        return cls(*(text.decode() for text in texts))
