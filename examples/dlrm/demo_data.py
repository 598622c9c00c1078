# SPDX-License-Identifier: Apache-2.0
"""The demo's files: two plain ones to train on, a gzip one to test on, and the best AUC on it."""

import pathlib
from typing import NamedTuple

from examples import bars
from examples.dlrm import auc, evaluation, generator


class DemoData(NamedTuple):
    """Where the files are and what the planted probabilities themselves reach on the test file."""

    train_paths: list
    test_path: pathlib.Path
    best_auc: float
    best_loss: float


def generate(arguments, folder, stop):
    """Writes the files into `folder`; None after Ctrl-C."""
    half = arguments.train_samples // 2
    train_paths = [folder / "train-0.tsv", folder / "train-1.tsv"]
    test_path = folder / "test.tsv.gz"
    plan = zip(
        [*train_paths, test_path], [arguments.train_samples - half, half, arguments.test_samples]
    )
    bar = bars.Bar("generate", arguments.train_samples + arguments.test_samples)

    def keep_going(num_new):
        bar.advance(num_new)
        return not stop.is_set

    first_chunk = 0
    for path, size in plan:
        written = generator.write_file(path, size, arguments.seed, first_chunk, keep_going)
        if stop.is_set:
            break
        first_chunk += generator.chunks_of(size)
    bar.close()
    if stop.is_set:
        return None
    return DemoData(  # `written` is now the test file's
        train_paths,
        test_path,
        auc.exact_auc(written.labels, written.probabilities),
        evaluation.log_loss(written.labels, written.probabilities),
    )
