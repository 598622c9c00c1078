# SPDX-License-Identifier: Apache-2.0
"""`python -m examples.dlrm.train --data FILE...`: trains on Criteo files. See README.md.

`horovodrun -np 2 python -m examples.dlrm.train ...` trains the same model on two processes.
"""

import argparse
import logging
import os
import sys

from examples import console
from examples.dlrm import settings

logger = logging.getLogger(__name__)


def parse_arguments(arguments):
    """The command line, as argparse gives it."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.dlrm.train", description="Trains a DLRM on Criteo files."
    )
    parser.add_argument(
        "--data", nargs="+", required=True, metavar="FILE", help="training files, plain or gzip"
    )
    parser.add_argument(
        "--test-data",
        nargs="+",
        default=[],
        metavar="FILE",
        help="files to measure the AUC on afterwards",
    )
    parser.add_argument(
        "--format",
        default="auto",
        choices=("auto", "tsv", "csv"),
        help="separator of the fields (default: what the first line has)",
    )
    parser.add_argument("--epochs", type=int, default=1, help="passes (default: %(default)s)")
    parser.add_argument("--max-steps", type=int, default=None, help="stop after so many steps")
    parser.add_argument(
        "--summaries", default=None, metavar="DIR", help="write TensorBoard summaries there"
    )
    settings.add_model_arguments(parser)
    return parser.parse_args(arguments)


def program(arguments, stop):
    """Trains, evaluates, reports; returns the exit status."""
    from examples.dlrm import criteo

    try:
        options = settings.model_options(arguments)
        _check_length(arguments)
        train_files = criteo.inspect_files(arguments.data, arguments.format)
        test_files = (
            criteo.inspect_files(arguments.test_data, arguments.format)
            if arguments.test_data
            else []
        )
        if arguments.summaries:
            os.makedirs(arguments.summaries, exist_ok=True)
    except (ValueError, OSError) as error:
        return console.fail(error)

    console.quiet_tensorflow()
    import tensorflow as tf

    from examples.dlrm import ranks as ranks_module
    from examples.dlrm import trainer as trainer_module

    ranks = ranks_module.connect()
    if options.global_batch_size % ranks.size:
        return console.fail(
            f"--batch-size counts the samples over all ranks: {options.global_batch_size} is no "
            f"multiple of {ranks.size}"
        )
    trainer = trainer_module.Trainer(options, train_files, test_files, ranks)
    try:
        num_samples = train(trainer, arguments, stop)
    except tf.errors.ResourceExhaustedError as error:
        return console.fail(f"{_said_by_op(error)}; here: raise --rows")
    if num_samples == 0 and not stop.is_set:
        return console.fail(f"no well-formed line in {arguments.data}")
    if test_files and not stop.is_set:
        test(trainer, stop)
    trainer.close()
    return console.EXIT_OK


def _said_by_op(error):
    """The line of an error of a session that says what is wrong; the rest says where."""
    lines = [line for line in error.message.splitlines() if line.startswith("table ")]
    return lines[0] if lines else error.message


def _check_length(arguments):
    for name in ("epochs", "max_steps"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")


def train(trainer, arguments, stop):
    """All passes over the training files; returns the number of samples trained on."""
    from examples.dlrm.passes import train_by_passes

    name = trainer.options.backend
    is_first = trainer.ranks.rank == 0
    progress, malformed = train_by_passes(trainer, name, arguments.summaries, arguments, stop)
    meter = progress.meters[name]
    if is_first:
        for line in malformed:
            logger.warning("training data: %s", line)
    if is_first and (meter.num_samples or stop.is_set):
        print(
            f"{'interrupted after' if stop.is_set else 'trained on'} {meter.num_samples} samples "
            f"in {meter.num_steps} steps: loss {meter.loss():.4f}, AUC {meter.auc():.4f} "
            f"(of the last {meter.window_samples}, before each update)"
        )
    if is_first and trainer.ranks.size > 1:
        print(_sent(meter.num_steps))
    return meter.num_samples


def _sent(num_steps):
    """Words for what tables sent in that many steps."""
    import sok_compat as sok

    sent_bytes = sok.communication_stats().payload_bytes
    return f"tables sent {sent_bytes / 1e6 / max(1, num_steps):.3f} MB a step to other ranks"


def test(trainer, stop):
    """Prints the exact AUC on the test files, all ranks together."""
    from examples.dlrm import evaluation

    result = evaluation.evaluate(trainer, stop)
    if trainer.ranks.rank != 0:
        return
    for line in trainer.test_malformed.report():
        logger.warning("test data: %s", line)
    print(f"tested on {result.num_samples} samples: loss {result.loss:.4f}, AUC {result.auc:.4f}")


def main():
    """The console entry."""
    sys.exit(console.run(program, parse_arguments(None)))


if __name__ == "__main__":
    main()
