# SPDX-License-Identifier: Apache-2.0
"""Which checkpoints belong together: a whole one, and increments, each of which holds what has
changed since the one before it; ops/tf/checkpoint_series.h."""

import dataclasses
import os

import tensorflow as tf

from sok_compat.checkpoint.files.series_entry import SERIES, SeriesEntry


@dataclasses.dataclass(frozen=True)
class Saved:
    """A checkpoint of a series."""

    path: str
    id: str

    @property
    def as_base(self):
        """What SokBeginCheckpoint is told of it."""
        return f"{os.path.basename(self.path)}\n{self.id}"


def entry_of(path):
    """The SeriesEntry of a checkpoint that can be read; None: it is of no series."""
    reader = tf.train.load_checkpoint(path)
    if not reader.has_tensor(SERIES):
        return None
    return SeriesEntry.parse(reader.get_tensor(SERIES).tolist(), path)


def chain_of(path):
    """Paths of what a checkpoint is made of: a whole one, each increment, and itself, last.

    Raises:
      tf.errors.NotFoundError: one is missing; the message names the file.
      tf.errors.FailedPreconditionError: one is another one than it was when the next was saved.
    """
    path = tf.compat.as_text(path)
    chain = [path]
    entry = entry_of(path)
    while entry is not None and entry.base_name is not None:
        base = os.path.join(os.path.dirname(path), entry.base_name)
        entry = _checked_base(chain[-1], base, entry)
        chain.append(base)
    return chain[::-1]


def _checked_base(increment, base, entry):
    what = f"the checkpoint {increment} holds what has changed since {base}"
    if not tf.io.gfile.exists(f"{base}.index"):
        raise tf.errors.NotFoundError(None, None, f"{what}, and {base}.index is missing")
    found = entry_of(base)
    if found is None or found.id != entry.base_id:
        raise tf.errors.FailedPreconditionError(
            None,
            None,
            f"{what}, but {base}.index is another one than it was then: restore one that is whole",
        )
    return found


def check_chain(path):
    """Raises, as chain_of, for an increment that cannot be restored. Of other paths it says
    nothing."""
    if path is not None and tf.io.gfile.exists(f"{tf.compat.as_text(path)}.index"):
        chain_of(path)
