# SPDX-License-Identifier: Apache-2.0
"""Which runs a script gets: by default, with each feature that it has a flag for, on two ranks."""

import dataclasses
import fnmatch
import itertools
import os

from benchmarks.modelzoo import op_times
from benchmarks.modelzoo.scripts import Script

DEFAULT, BASELINE = "default", "tf"
# Feature -> values of flags; None: each of the flag's choices but the default, or "true".
FEATURES = (
    (BASELINE, {BASELINE: True}),
    ("ev", {"ev": "true"}),
    ("ev_filter", {"ev": "true", "ev_filter": None}),
    ("ev_elimination", {"ev": "true", "ev_elimination": None}),
    ("ev_storage", {"ev_storage": None}),
    ("group_embedding", {"group_embedding": None}),
    ("group_embedding", {"ev": "true", "group_embedding": None}),
    ("adaptive_emb", {"adaptive_emb": "true"}),
    ("multihash", {"multihash": "true"}),
    ("micro_batch", {"micro_batch": 2}),
    ("bf16", {"bf16": True}),
    ("workqueue", {"workqueue": "true", "parquet_dataset": "false"}),  # DeepRec has no others
    ("incremental_ckpt", {"incremental_ckpt": 10}),
    ("incr_save_steps", {"incr_save_steps": 5}),
    ("parquet_dataset", {"parquet_dataset": "false"}),
    ("optimizer", {"optimizer": None}),
    ("embedding_layer", {"embedding_layer": "TF"}),
    (
        "embedding_layer",  # whose rows have 128 numbers
        {"embedding_layer": "TF_EV", "embedding_vec_size": 128, "bottom_stack": "64 128"},
    ),
    ("use_feature_columns", {"use_feature_columns": True}),
    ("executor", {"use_cost_model_executor": True}),
    ("executor", {"use_thread_local_executor": True}),
    ("enable_hvd", {"group_embedding": "true", "enable_hvd": "true"}),
)
# What a script must be told: of SparseOperationKit's DLRM, a small one.
_REQUIRED = {
    "embedding_layer": "SOK",
    "embedding_vec_size": 4,
    "bottom_stack": "64 4",
    "top_stack": "64 1",
    "distributed_tool": "onedevice",
}
_OUTPUT = "result"  # a folder within the one that a run starts in
_DIVIDING = ("enable_hvd",)  # with these a script divides its batch among ranks
_BATCH_FLAGS = ("batch_size", "global_batch_size")


@dataclasses.dataclass(frozen=True)
class Settings:
    """What all runs have in common."""

    steps: int
    batch_size: int
    timeline_steps: int = 0  # between two timelines of a script that can write them; 0: none


@dataclasses.dataclass(frozen=True)
class Case:
    """One run of a script."""

    script: Script
    feature: str  # DEFAULT, or one of FEATURES
    values: tuple = ()  # of (name of a flag, value)
    num_ranks: int = 1

    @property
    def label(self):
        """The flags beyond those of all runs."""
        flags = self.script.flags
        words = [word for name, value in self.values for word in flags[name].arguments(value)]
        return " ".join(words) or DEFAULT

    def batch_size(self, settings):
        """Samples of a step, of all ranks; None where it is not known."""
        flags = self.script.flags
        if "global_batch_size" in flags or any(name in _DIVIDING for name, _ in self.values):
            return settings.batch_size
        of_rank = settings.batch_size if "batch_size" in flags else self.script.batch_size
        return of_rank and of_rank * self.num_ranks

    def arguments(self, settings, data_folder):
        """[str], the script's command line."""
        flags = self.script.flags
        values = {name: _REQUIRED[name] for name, flag in flags.items() if name in _REQUIRED}
        values |= {
            "data_location": data_folder,
            "train_file_pattern": os.path.join(data_folder, "train"),
            "test_file_pattern": os.path.join(data_folder, "test"),
            "steps": settings.steps,
            **dict.fromkeys(_BATCH_FLAGS, settings.batch_size),
            "output_dir": _OUTPUT,
        }
        if "output_dir" not in flags:
            values["checkpoint"] = _OUTPUT
        if settings.timeline_steps:
            values[op_times.FLAG] = settings.timeline_steps
        values |= dict(self.values)
        known = [(flags[name], value) for name, value in values.items() if name in flags]
        return [word for flag, value in known for word in flag.arguments(value)]


def cases_of(script):
    """[Case], the default one first."""
    cases = [Case(script, DEFAULT)]
    for feature, wanted in FEATURES:
        if all(name in script.flags for name in wanted):
            cases += [Case(script, feature, values) for values in _combinations(script, wanted)]
    return [*cases, *(two for one in cases for two in _on_two_ranks(one))]


def selected(cases, models, features):
    """Those of them whose model and feature match a pattern each; an empty list matches all."""
    return [
        case
        for case in cases
        if _matches(case.script.model, models) and _matches(case.feature, features)
    ]


def _matches(name, patterns):
    return not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _combinations(script, wanted):
    """Yields ((name, value), ...)."""
    alternatives = []
    for name, value in wanted.items():
        flag = script.flags[name]
        usual = _REQUIRED.get(name, flag.default)
        choices = flag.choices or ("true",)
        others = [choice for choice in choices if choice not in (None, usual)]
        values = others if value is None else [value]
        alternatives.append([(name, one) for one in values])
    return itertools.product(*alternatives)


def _on_two_ranks(case):
    """Yields the case for two ranks, where the script has a mode for them."""
    values, script = dict(case.values), case.script
    is_plain = case.feature in (DEFAULT, "use_feature_columns")
    is_collective = script.has_collective_strategy and is_plain
    is_grouped = values.get("group_embedding") == "collective"
    if is_collective or is_grouped or "enable_hvd" in values:
        yield dataclasses.replace(case, num_ranks=2)
    elif "distributed_tool" in script.flags and case.feature == DEFAULT:
        horovod = (*case.values, ("distributed_tool", "horovod"))
        yield dataclasses.replace(case, values=horovod, num_ranks=2)
