# SPDX-License-Identifier: Apache-2.0
"""Generated Criteo files that runs share: made by the first run that wants them, then kept."""

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
    """What is trained and tested on, and the best AUC that is possible; None: not known."""

    train: list
    test: list
    best_auc: float = None


def generated(arguments, local_rank, stop):
    """Files of `train_samples` and `test_samples` lines; None after Ctrl-C.

    The first rank of a machine makes them, others wait for them.
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
    """All files, or nothing: they are written elsewhere first."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as parent:
        unfinished = Path(parent, "data")
        unfinished.mkdir()
        data = demo_data.generate(arguments, unfinished, stop)
        if data is not None:
            (unfinished / _BEST).write_text(json.dumps({"auc": data.best_auc}))
            os.rename(unfinished, folder)
