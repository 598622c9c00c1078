# SPDX-License-Identifier: Apache-2.0
"""All environment variables of this package, as listed in docs/use/configuration.md.

No TensorFlow.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any, Callable

_SWITCH = {"0": False, "1": True}
FLOATS = ("float32", "bfloat16", "float16")


def _seconds(text):
    seconds = float(text)
    if not seconds > 0:
        raise ValueError
    return seconds


def _count(text):
    count = int(text)
    if count < 0:
        raise ValueError
    return count


def _true_or_false(text):
    return {"true": True, "1": True, "false": False, "0": False}[text.lower()]


def _one_of(*names):
    return {name: name for name in names}.__getitem__


@dataclasses.dataclass(frozen=True)
class Setting:
    """An environment variable, the same on all ranks."""

    name: str
    default: str
    values: str  # description of the valid values, for messages
    parse: Callable[[str], Any]  # raises KeyError or ValueError for an invalid value
    effect: str
    set_by: str  # its typical users

    def value(self) -> Any:
        """The value in the environment, or the default.

        Raises:
          ValueError: the environment has an invalid value.
        """
        text = os.environ.get(self.name, self.default)
        try:
            return self.parse(text)
        except (KeyError, ValueError):
            raise ValueError(f"{self.name} must be {self.values}, got {text!r}") from None


STALL_TIMEOUT = Setting(
    "SOK_STALL_TIMEOUT_SECONDS",
    "60",
    "a number of seconds > 0",
    _seconds,
    "how long the start of ranks, a lookup and a save wait for another rank before they fail and "
    "name it",
    "scripts where a rank may be away for longer",
)
SHARED_MEMORY = Setting(
    "SOK_SHARED_MEMORY",
    "1",
    "0 or 1",
    _SWITCH.__getitem__,
    "0: ranks of one host exchange through MPI or Horovod, too",
    "debugging",
)
WIRE_DTYPE = Setting(
    "SOK_WIRE_DTYPE",
    "float32",
    f"one of {', '.join(FLOATS)}",
    _one_of(*FLOATS),
    "dtype of rows and gradients between ranks, unless a script sets it",
    "ranks that wait for the network",
)
ROW_DTYPE = Setting(
    "SOK_ROW_DTYPE",
    "float32",
    f"one of {', '.join(FLOATS)}",
    _one_of(*FLOATS),
    "dtype of the rows of tables in memory, but for distributed-embeddings', unless a script sets "
    "it",
    "hosts with too little memory",
)
CHECKPOINTS_ON_RANK_0 = Setting(
    "SOK_CHECKPOINTS_ON_RANK_0",
    "0",
    "0 (all ranks write to a disk that they share) or 1 (rank 0 writes all files)",
    _SWITCH.__getitem__,
    "1: rank 0 alone writes and reads the files of checkpoints",
    "hosts without a shared disk",
)
SAVE_MEMORY = Setting(
    "SOK_SAVE_MEMORY_MIB",
    "128",
    "a whole number of MiB >= 0",
    _count,
    "memory of a rank for what a save of a checkpoint has copied and the disk has not taken; steps "
    "go on once all is copied",
    "jobs that save larger tables while they train",
)
RECORD_FREQUENCIES, RECORD_VERSIONS = (
    Setting(
        name,
        "0",
        "any text",
        lambda text: text.lower() in ("1", "true"),
        f"1 or true: DeepRec's variables record {what} each key is looked up, for `{reader}`, also "
        "without a filter or eviction",
        "scripts for DeepRec",
    )
    for name, what, reader in (
        ("TF_RECORD_FREQ", "how often and when", "get_frequency"),
        ("TF_RECORD_VERSION", "when and how often", "get_version"),
    )
)
SAVE_FILTERED_KEYS = Setting(
    "TF_EV_SAVE_FILTERED_FEATURES",
    "True",
    "true, false, 1 or 0",
    _true_or_false,
    "False: checkpoints of DeepRec's variables have no counts of keys that a filter keeps out",
    "scripts for DeepRec",
)
RESTORE_OTHER_WIDTHS = Setting(
    "TF_EV_RESTORE_CUSTOM_DIM",
    "False",
    "true, false, 1 or 0",
    _true_or_false,
    "True: DeepRec's variables restore the columns that they share with a checkpoint of another "
    "`embedding_dim`",
    "scripts for DeepRec",
)
BFLOAT16_PRODUCTS = Setting(
    "SOK_BFLOAT16_PRODUCTS",
    "0",
    "0 or 1",
    _SWITCH.__getitem__,
    "1: launched scripts compute products of matrices in bfloat16, as with `--bfloat16`",
    "processors with instructions for it",
)
SETTINGS = (
    STALL_TIMEOUT,
    SHARED_MEMORY,
    WIRE_DTYPE,
    ROW_DTYPE,
    CHECKPOINTS_ON_RANK_0,
    SAVE_MEMORY,
    RECORD_FREQUENCIES,
    RECORD_VERSIONS,
    SAVE_FILTERED_KEYS,
    RESTORE_OTHER_WIDTHS,
    BFLOAT16_PRODUCTS,
)


class SettingsDifferError(RuntimeError):
    """The ranks' environment variables differ."""


def settings_in_words() -> str:
    """This rank's settings, as one line of ASCII for the other ranks."""
    return json.dumps({setting.name: _in_words(setting) for setting in SETTINGS})


def check_same_on_all_ranks(lines: Sequence[str]) -> None:
    """Raises unless all ranks have the same settings.

    Raises:
      SettingsDifferError: settings differ; the message has each rank's values.
    """
    of_ranks = [json.loads(line) for line in lines]
    different = []
    for setting in SETTINGS:
        ranks_of: dict[str, list[str]] = {}
        for rank, words in enumerate(of_ranks):
            ranks_of.setdefault(words[setting.name], []).append(str(rank))
        if len(ranks_of) > 1:
            values = [f"{value!r} on rank {', '.join(ranks)}" for value, ranks in ranks_of.items()]
            different.append(f"{setting.name} is {', '.join(values)}")
    if different:
        raise SettingsDifferError(
            f"the environment must be the same on all ranks: {'; '.join(different)}. Set it in "
            "the command that starts them (horovodrun passes its own on, mpirun with -x)"
        )


def _in_words(setting):
    try:
        return str(setting.value())
    except ValueError:  # raised again where the setting is used
        return os.environ[setting.name]
