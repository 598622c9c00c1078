# SPDX-License-Identifier: Apache-2.0
"""The files of measurements: what was measured, and where it comes from."""

import datetime
import json
import os
import pathlib

import tensorflow as tf

from benchmarks.kept import processor

FOLDER = pathlib.Path(__file__).parent


def write(name, command, figures):
    """Writes `<name>.json`.

    Args:
      name: of the file.
      command: what measures it, as one types it.
      figures: a dict of what was measured.
    """
    origin = {
        "command": command,
        "date": datetime.date.today().isoformat(),
        "machine": f"{os.cpu_count()} cores, {processor()}",
        "tensorflow": tf.__version__,
    }
    path = FOLDER / f"{name}.json"
    path.write_text(json.dumps({**origin, **figures}, indent=1) + "\n")
    print(f"wrote {path}")
