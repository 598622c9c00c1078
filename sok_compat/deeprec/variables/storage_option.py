# SPDX-License-Identifier: Apache-2.0
"""`StorageOption`: the tiers that store the rows of an EmbeddingVariable."""

from __future__ import annotations

import logging
from typing import Any

from sok_compat.deeprec.variables.protocol_enum import ProtocolEnum
from sok_compat.runtime.checked_values import checked_count
from sok_compat.runtime.known_words import checks_words

_logger = logging.getLogger("sok_compat")
NUM_TIERS = 4
TIER_BYTES = 1 << 30


class StorageType(ProtocolEnum):
    """The tiers that store rows. API of DeepRec (config_pb2.StorageType).

    Numbers are those of DeepRec's tensorflow/core/framework/embedding/config.proto; DEFAULT is
    DRAM.
    """

    DEFAULT = 0
    DRAM = 1
    PMEM_MEMKIND = 2
    PMEM_LIBPMEM = 3
    SSDHASH = 4
    LEVELDB = 5
    HBM = 6
    DRAM_PMEM = 11
    DRAM_SSDHASH = 12
    HBM_DRAM = 13
    DRAM_LEVELDB = 14
    DRAM_PMEM_SSDHASH = 101
    HBM_DRAM_SSDHASH = 102


_DRAM_INSTEAD = tuple(each for each in StorageType if "PMEM" in each.name or "HBM_" in each.name)
_warned_of: set[StorageType] = set()


class CacheStrategy(ProtocolEnum):
    """Which rows leave a full first tier. API of DeepRec (config_pb2.CacheStrategy)."""

    LRU = 0
    LFU = 1


class StorageOption:
    """Where rows are stored. API of DeepRec.

    DRAM (the default), HBM, and types with SSD or LevelDB: rows and slots are in files in
    storage_path, and storage_size[0] bytes of them in DRAM. In the place of persistent memory, and
    of HBM in front of another tier, DRAM is used.
    """

    @checks_words()
    def __init__(
        self,
        storage_type: StorageType | int | None = None,
        storage_path: str | None = None,
        storage_size: list[int] | None = None,
        cache_strategy: CacheStrategy | int = CacheStrategy.LFU,
        layout: Any = None,
    ) -> None:
        """Sets the attributes.

        Args:
          storage_type: a StorageType, or its number; None: DRAM.
          storage_path: a folder, for types with SSD or LevelDB.
          storage_size: bytes of each tier, a list of up to four; missing ones: 1 GiB.
          cache_strategy: a CacheStrategy, or its number; both are one clock that counts uses.
          layout: stored, but not used.

        Raises:
          ValueError: storage_size is not a list of sizes; a path without a type, or an SSD or
            LevelDB type without a path; a number that the enum does not have.
        """
        if storage_type is not None:
            storage_type = StorageType.checked("storage_type", storage_type)
        storage_size = [TIER_BYTES] if storage_size is None else storage_size
        if not isinstance(storage_size, list):
            raise ValueError(f"storage_size must be a list, got {storage_size!r}")
        if len(storage_size) > NUM_TIERS:
            raise ValueError(
                f"storage_size must have at most {NUM_TIERS} sizes, one for each tier, got "
                f"{storage_size!r}"
            )
        storage_size = [checked_count("storage_size", size) for size in storage_size]
        if storage_path is not None and storage_type is None:
            raise ValueError(f"storage_path {storage_path!r} needs a storage_type")
        if storage_path is None and storage_type is not None and _is_on_disk(storage_type):
            raise ValueError(f"the storage type {storage_type.name} needs a storage_path")
        self.storage_type = storage_type
        self.storage_path = storage_path
        self.storage_size = storage_size + [TIER_BYTES] * (NUM_TIERS - len(storage_size))
        self.cache_strategy = CacheStrategy.checked("cache_strategy", cache_strategy)
        self.layout = layout

    def files(self) -> dict[str, Any]:
        """Arguments of Table for rows in files; {} for rows in memory."""
        if self.storage_type is None or not _is_on_disk(self.storage_type):
            return {}
        return {"storage_path": self.storage_path, "memory_bytes": max(1, self.storage_size[0])}

    def warn_of_tiers(self, name: str) -> None:
        """Warns of tiers whose place DRAM takes, once for each type; `name`: the variable's."""
        if self.storage_type in _DRAM_INSTEAD and self.storage_type not in _warned_of:
            _warned_of.add(self.storage_type)
            _logger.warning(
                "%s: storage type %s: DRAM takes the place of its first tiers, and stores %s",
                name,
                self.storage_type.name,
                "rows in front of the files" if self.files() else "all rows",
            )


def _is_on_disk(storage_type: StorageType) -> bool:
    return any(word in storage_type.name for word in ("SSD", "LEVELDB"))
