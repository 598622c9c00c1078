# SPDX-License-Identifier: Apache-2.0
"""What messages about a table call the things that its user has; a face gives its own words."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Words:
    """Phrases for the ways out that messages name."""

    initializer: str = "the initializer of a table"  # where a message is about that argument
    without_index: str = "use_hash_index=False"  # how tables without a hash index are made
    look_up: str = "with sok_compat.lookup"  # how keys are looked up
    save: str = "sok_compat.checkpoint"  # what saves and restores tables
    restore: str = "sok_compat.checkpoint.restore_from_files"
    set_rows: str = "sok_compat.checkpoint.set_rows"
    clip: str = "sok_compat.training.clipping.clip_by_global_norm"  # by a norm over all ranks
    others: str = "those that are no sok_compat.tables.Table"  # how other variables are told apart
