# SPDX-License-Identifier: Apache-2.0
"""The AUC of the demo's two models while they train, and at the end.

python -m examples.dlrm.demo --out runs/auc --time-limit 1500 --ranks 0 | tee runs/auc.txt
python -m benchmarks.pictures.auc runs/auc runs/auc.txt
"""

import argparse
import pathlib
import re

import tensorflow as tf

from benchmarks.pictures import measured
from examples.dlrm.meter import WINDOW_SAMPLES
from examples.dlrm.settings import ModelOptions

_MODELS = {"sok_compat": "sok", "plain TensorFlow": "plain"}  # {title: folder}


def curve(folder):
    """[[samples, AUC]] from the summaries of a model, as soon as the AUC's window is full."""
    (path,) = folder.glob("events.out.tfevents.*")
    values = [
        (event.step * ModelOptions.global_batch_size, value)
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
    ]
    return [
        [samples, round(value.simple_value, 5)]
        for samples, value in values
        if value.tag == "auc" and samples >= WINDOW_SAMPLES
    ]


def test_aucs(report):
    """{model: test AUC} of the table that the demo prints; 'best possible' is one of them."""
    return {
        title: float(re.search(rf"^{title} +(0\.\d+)", report, re.MULTILINE)[1])
        for title in (*_MODELS, "best possible")
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=pathlib.Path, help="the folder of the demo's summaries")
    parser.add_argument("report", type=pathlib.Path, help="a file of what the demo printed")
    arguments = parser.parse_args()
    last = max(arguments.run.iterdir())
    figures = {
        "test_auc": test_aucs(arguments.report.read_text()),
        "training_auc": {title: curve(last / name) for title, name in _MODELS.items()},
    }
    measured.write("auc", "python -m examples.dlrm.demo", figures)


if __name__ == "__main__":
    main()
