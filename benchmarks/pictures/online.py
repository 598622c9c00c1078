# SPDX-License-Identifier: Apache-2.0
"""AUC of a served model that follows its trainer, and of one that does not: `python -m
benchmarks.pictures.online`."""

import subprocess
import sys

from benchmarks.pictures import measured

_OPTIONS = ["--turn-seconds=20", "--save-seconds=0.5", "--threads=2", "--fixed-after=3"]
_COMMAND = "python -m benchmarks.pictures.online"
SECONDS = 45


def main():
    command = [sys.executable, "-m", "examples.online", *_OPTIONS, f"--seconds={SECONDS}"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    lines = [line.split() for line in done.stdout.splitlines()[1:]]
    follows, stays = ([[int(line[0]), float(line[at])] for line in lines] for at in (-2, -1))
    measured.write("online", _COMMAND, {"auc": {"follows": follows, "stays as it is": stays}})


if __name__ == "__main__":
    main()
