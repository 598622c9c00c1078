# SPDX-License-Identifier: Apache-2.0
"""`Words`: the names of a face's functions in messages about its tables."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Words:
    """Phrases by which messages name ways out."""

    initializer: str = "the initializer of a table"  # in messages about that argument
    raise_capacity: str = "raise the capacity"
    without_index: str = "use_hash_index=False"  # makes tables without a hash index
    look_up: str = "with sok_compat.lookup.group.lookup_group"  # looks keys up
    save: str = "sok_compat.checkpoint"  # saves and restores tables
    restore: str = "sok_compat.checkpoint.restore_from_files"
    set_rows: str = "sok_compat.checkpoint.set_rows"
    clip: str = "sok_compat.training.clipping.clip_by_global_norm"  # by a norm over all ranks
    others: str = "those that are no sok_compat.tables.Table"  # the variables that are not tables
