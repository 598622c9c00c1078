# SPDX-License-Identifier: Apache-2.0
"""What numbers of two bytes cost in quality, those of rows or of products of matrices:
`python -m benchmarks.two_bytes_auc --of products --scripts FOLDER`.

Trains DeepRec's scripts of FOLDER unmodified, with rows also the demo's model, on planted data, in
float32 and in bfloat16: rows rounded stochastically and to nearest, products as --bfloat16 has
them. Each seed gives other first values. Prints the AUC of all, on samples that none saw.
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

from benchmarks.modelzoo import cases, scripts
from benchmarks.modelzoo.data import Data
from benchmarks.tables import lines
from examples.dlrm import generator

DEMO = "demo"
VARIANTS = {  # what -> {column of the table: (variables, whether to round rows to nearest)}
    "rows": {
        "float32": ({"SOK_ROW_DTYPE": "float32"}, False),
        "bfloat16, stochastic": ({"SOK_ROW_DTYPE": "bfloat16"}, False),
        "bfloat16, nearest": ({"SOK_ROW_DTYPE": "bfloat16"}, True),
    },
    "products": {
        "float32": ({"SOK_BFLOAT16_PRODUCTS": "0"}, False),
        "bfloat16": ({"SOK_BFLOAT16_PRODUCTS": "1"}, False),
    },
}
MODELS = {
    "rows": (DEMO, "dlrm", "wide_and_deep"),
    "products": ("bst", "din", "dlrm", "dssm", "wide_and_deep"),
}
_FEATURES = {"rows": "ev", "products": cases.DEFAULT}  # flags of scripts
_TO_NEAREST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rows_to_nearest.py")
_AUC = re.compile(r"AUC\s*[=:]?\s*([01]\.\d+)", re.I)


def main():
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--of", choices=VARIANTS, default="rows")
    parser.add_argument("--scripts", help="a folder with folders of scripts, as dlrm/train.py")
    parser.add_argument("--models", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--eval-samples", type=int, default=50_000)
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for model in parsed.models or MODELS[parsed.of]:
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
    script = next(each for each in scripts.find_scripts(parsed.scripts) if each.model == model)
    data = Data(os.path.join(folder, "data"), *_sizes(parsed).values()).folder(script.data_format)
    case = next(each for each in cases.cases_of(script) if each.feature == _FEATURES[parsed.of])
    settings = cases.Settings(parsed.steps, parsed.batch_size)
    return ["sok_compat.run", script.path, *case.arguments(settings, data)]


def _sizes(parsed):
    return {"train": parsed.steps * parsed.batch_size, "eval": parsed.eval_samples}


def _table(model, command, parsed, folder):
    """Lines: a row for each seed, and the means; each run starts in a folder of its own."""
    variants = VARIANTS[parsed.of]
    found = {title: [] for title in variants}
    for seed in parsed.seeds:
        for title, (variables, is_nearest) in variants.items():
            with tempfile.TemporaryDirectory(dir=folder) as work:
                found[title].append(
                    _auc([*command, "--seed", str(seed)], variables, is_nearest, work)
                )
            print(f"{model}, seed {seed}, {title}: {found[title][-1]:.4f}", file=sys.stderr)
    rows = [(f"{model}, seed {s}", *each) for s, each in zip(parsed.seeds, zip(*found.values()))]
    rows.append((f"{model}, mean", *map(statistics.mean, found.values())))
    rows.append((f"{model}, deviation", *map(statistics.pstdev, found.values())))
    texts = [[name, *(f"{value:.4f}" for value in values)] for name, *values in rows]
    return lines(["", *variants], texts)


def _auc(command, variables, is_nearest, work):
    """The last AUC that a run prints."""
    os.makedirs(os.path.join(work, "result"))  # scripts expect it
    launcher = [_TO_NEAREST] if is_nearest else ["-m"]
    ended = subprocess.run(
        [sys.executable, *launcher, *command],
        cwd=work,
        env={**os.environ, **variables, "TF_CPP_MIN_LOG_LEVEL": "2"},
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
