# SPDX-License-Identifier: Apache-2.0
"""`python -m sok_compat.run -m examples.deeprec.train`: trains a DCNv2. See README.md.

`python -m sok_compat.run.launch -np 2 -m examples.deeprec.train` trains it with two processes.
"""

import argparse
import json
import logging
import sys
from pathlib import Path

from examples import console
from examples.deeprec import data, picture, settings

logger = logging.getLogger(__name__)


def parse_arguments(arguments):
    """The parsed command line."""
    parser = argparse.ArgumentParser(
        prog="python -m sok_compat.run -m examples.deeprec.train",
        description="Trains a DCNv2 on Criteo files, or on generated ones.",
    )
    parser.add_argument(
        "--data", nargs="+", metavar="FILE", help="training files (default: generated ones)"
    )
    parser.add_argument("--test-data", nargs="+", metavar="FILE", help="required with --data")
    parser.add_argument(
        "--train-samples",
        type=int,
        default=500_000,
        help="generated lines to train on (default: %(default)s)",
    )
    parser.add_argument(
        "--test-samples",
        type=int,
        default=100_000,
        help="generated lines to measure the AUC on (default: %(default)s)",
    )
    parser.add_argument("--epochs", type=int, default=1, help="passes (default: %(default)s)")
    parser.add_argument("--max-steps", type=int, help="stop after this number of steps")
    parser.add_argument(
        "--out",
        default="runs/deeprec",
        metavar="DIR",
        help="for generated files, summaries, figures and the picture (default: %(default)s)",
    )
    settings.add_arguments(parser)
    return parser.parse_args(arguments)


def program(arguments, stop):
    """Trains, evaluates, reports; returns the exit status."""
    console.quiet_tensorflow()
    import tensorflow as tf

    if not hasattr(tf, "get_embedding_variable"):
        return console.fail(
            "this is a DeepRec script: run it with python -m sok_compat.run -m "
            "examples.deeprec.train"
        )
    tf.config.experimental.enable_distributed_strategy("collective")
    from examples.dlrm import ranks as ranks_module

    ranks = ranks_module.connect()
    try:
        options = settings.options_of(arguments)
        check(arguments, options, ranks.size)
        files = _files(arguments, ranks, stop)
        if files is None:
            return console.EXIT_INTERRUPTED
        trainer = _make_trainer(options, files, ranks)
    except (ValueError, OSError) as error:
        return console.fail(error)
    history = train(trainer, arguments, stop)
    if history and not stop.is_set:
        finish(trainer, arguments, history, files.best_auc, stop)
    trainer.close()
    return console.EXIT_OK


def check(arguments, options, num_ranks):
    """Raises ValueError for invalid arguments or combinations of arguments."""
    for name in ("epochs", "max_steps", "train_samples", "test_samples"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if bool(arguments.data) != bool(arguments.test_data):
        raise ValueError("--data and --test-data go together")
    if options.batch_size % num_ranks:
        raise ValueError(
            f"--batch-size counts the samples over all ranks: {options.batch_size} is no multiple "
            f"of {num_ranks}"
        )


def _files(arguments, ranks, stop):
    """data.Files; None after Ctrl-C."""
    if arguments.data:
        return data.Files(arguments.data, arguments.test_data)
    return data.generated(arguments, ranks.local_rank, stop)


def _make_trainer(options, files, ranks):
    from examples.deeprec import trainer
    from examples.dlrm import criteo

    paths = (files.train, files.test)
    return trainer.Trainer(options, *map(criteo.inspect_files, paths), ranks)


def train(trainer, arguments, stop):
    """Runs all passes over the training files; returns [(samples, loss, AUC)] at intervals."""
    from examples.dlrm.passes import train_by_passes

    name = arguments.embedding
    folder = Path(arguments.out, name)
    progress, malformed = train_by_passes(trainer, name, folder, arguments, stop)
    if trainer.ranks.rank == 0:
        meter = progress.meters[name]
        for line in malformed:
            logger.warning("training data: %s", line)
        print(
            f"trained on {meter.num_samples} samples in {meter.num_steps} steps: loss "
            f"{meter.loss():.4f}, AUC {meter.auc():.4f} (of the last {meter.window_samples}, "
            f"before each update), {meter.median_speed():,.0f} samples/s"
        )
    return progress.history[name]


def finish(trainer, arguments, history, best_auc, stop):
    """Tests on all ranks; rank 0 prints the AUC, and saves figures and the picture."""
    from examples.dlrm import evaluation

    result = evaluation.evaluate(trainer, stop)
    if trainer.ranks.rank != 0:
        return
    for line in trainer.test_malformed.report():
        logger.warning("test data: %s", line)
    best = "" if best_auc is None else f" (best possible {best_auc:.4f})"
    figures = f"loss {result.loss:.4f}, AUC {result.auc:.4f}{best}"
    print(f"tested on {result.num_samples} samples: {figures}")
    stem = Path(arguments.out, arguments.embedding, "auc")
    figures = {"history": history, "test_loss": result.loss, "test_auc": result.auc}
    stem.with_suffix(".json").write_text(json.dumps(figures))
    if picture.is_possible():
        picture.save(stem.with_suffix(".png"), history, result.auc, best_auc)
        print(f"AUC over the training: {stem.with_suffix('.png')}")
    else:
        print(picture.INSTALL_HINT)


def main():
    """The entry point."""
    sys.exit(console.run(program, parse_arguments(None)))


if __name__ == "__main__":
    main()
