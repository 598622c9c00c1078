# SPDX-License-Identifier: Apache-2.0
"""Generated Criteo files, shared by runs: the first run generates them."""

import json
import os
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from examples.dlrm import demo_data

_SECONDS_BETWEEN_LOOKS = 0.2
_BEST = "best.json"


class Files(NamedTuple):
    """Files to train and test on, and the best possible AUC; None: unknown."""

    train: list
    test: list
    best_auc: float = None


def generated(arguments, local_rank, stop):
    """Files with `train_samples` and `test_samples` lines; None after Ctrl-C.

    The first rank of a machine generates them; other ranks wait.
    """
    samples = f"{arguments.train_samples}-{arguments.test_samples}"
    folder = Path(arguments.out, f"data-{samples}-seed-{arguments.seed}")
    if local_rank == 0 and not folder.exists():
        _generate(arguments, folder, stop)
    while not folder.exists() and not stop.is_set:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    if stop.is_set:
        return None
    best_auc = json.loads((folder / _BEST).read_text())["auc"]
    return Files(sorted(folder.glob("train-*")), sorted(folder.glob("test*")), best_auc)


def _generate(arguments, folder, stop):
    """Generates all files or none: writes to a temporary folder first."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as parent:
        unfinished = Path(parent, "data")
        unfinished.mkdir()
        data = demo_data.generate(arguments, unfinished, stop)
        if data is not None:
            (unfinished / _BEST).write_text(json.dumps({"auc": data.best_auc}))
            os.rename(unfinished, folder)
