# SPDX-License-Identifier: Apache-2.0
"""What rows of two bytes cost in quality: `python -m benchmarks.row_dtypes_auc --scripts FOLDER`.

Trains the demo's model, and DeepRec's scripts dlrm and wide_and_deep of FOLDER unmodified, on
planted data, with rows of float32 and of bfloat16, rounded stochastically and to nearest. Each seed
gives other first values, and the same batches. Prints the AUC of all, on samples that none saw.
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

from benchmarks.modelzoo.data import Data
from benchmarks.tables import lines
from examples.dlrm import generator

ROWS = {  # column of the table -> (SOK_ROW_DTYPE, whether to round to nearest)
    "float32": ("float32", False),
    "bfloat16, stochastic": ("bfloat16", False),
    "bfloat16, nearest": ("bfloat16", True),
}
DEMO, SCRIPTS = "demo", ("dlrm", "wide_and_deep")
_TO_NEAREST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rows_to_nearest.py")
_AUC = re.compile(r"AUC\s*[=:]?\s*([01]\.\d+)", re.I)


def main():
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scripts", help="a folder with dlrm/train.py and wide_and_deep/train.py")
    parser.add_argument("--models", nargs="+", default=[DEMO, *SCRIPTS])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--eval-samples", type=int, default=50_000)
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for model in parsed.models:
            command = _of_demo if model == DEMO else _of_script
            print("\n".join(_table(model, command(model, parsed, folder), parsed, folder)))


def _of_demo(model, parsed, folder):
    """(the command of a run without its seed)"""
    paths = []
    for chunk, (name, size) in enumerate(_sizes(parsed).items()):
        paths.append(str(pathlib.Path(folder, f"{model}-{name}.tsv")))
        generator.write_file(paths[-1], size, seed=1, first_chunk=1000 * chunk)
    files = ["--data", paths[0], "--test-data", paths[1]]
    return ["examples.dlrm.train", *files, "--batch-size", str(parsed.batch_size)]


def _of_script(model, parsed, folder):
    data = Data(os.path.join(folder, "data"), *_sizes(parsed).values()).folder("criteo")
    script = os.path.abspath(os.path.join(parsed.scripts, model, "train.py"))
    sizes = ["--batch_size", str(parsed.batch_size), "--steps", str(parsed.steps)]
    return ["sok_compat.run", script, "--data_location", data, *sizes, "--ev", "true"]


def _sizes(parsed):
    return {"train": parsed.steps * parsed.batch_size, "eval": parsed.eval_samples}


def _table(model, command, parsed, folder):
    """Lines: a row for each seed, and the means; each run starts in a folder of its own."""
    found = {title: [] for title in ROWS}
    for seed in parsed.seeds:
        for title, (dtype, is_nearest) in ROWS.items():
            with tempfile.TemporaryDirectory(dir=folder) as work:
                found[title].append(_auc([*command, "--seed", str(seed)], dtype, is_nearest, work))
            print(f"{model}, seed {seed}, {title}: {found[title][-1]:.4f}", file=sys.stderr)
    rows = [(f"{model}, seed {s}", *each) for s, each in zip(parsed.seeds, zip(*found.values()))]
    rows.append((f"{model}, mean", *map(statistics.mean, found.values())))
    rows.append((f"{model}, deviation", *map(statistics.pstdev, found.values())))
    texts = [[name, *(f"{value:.4f}" for value in values)] for name, *values in rows]
    return lines(["", *ROWS], texts)


def _auc(command, dtype, is_nearest, work):
    """The last AUC that a run prints."""
    os.makedirs(os.path.join(work, "result"))  # scripts expect it
    launcher = [_TO_NEAREST] if is_nearest else ["-m"]
    ended = subprocess.run(
        [sys.executable, *launcher, *command],
        cwd=work,
        env={**os.environ, "SOK_ROW_DTYPE": dtype, "TF_CPP_MIN_LOG_LEVEL": "2"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    aucs = _AUC.findall(ended.stdout)
    if ended.returncode or not aucs:
        raise RuntimeError(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stdout}")
    return float(aucs[-1])


if __name__ == "__main__":
    main()
