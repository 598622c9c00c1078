# SPDX-License-Identifier: Apache-2.0
"""`python -m examples.dlrm.demo`: SOK beside plain TensorFlow on data whose best AUC is known.

Writes Criteo files from the planted model, trains both models on the same batches in turn, and
prints their test AUC beside the best possible one; then trains the SOK model on the same batches
again, on several processes, if Horovod is installed. See README.md.
"""

import argparse
import pathlib
import shutil
import sys
import tempfile
import time

from examples import console
from examples.dlrm import settings

_TITLES = {"sok": "sok_compat", "plain": "plain TensorFlow"}
_SECONDS_FOR_RANKS = 55  # what the run on several processes has at least, after the time limit


def parse_arguments(arguments):
    """The command line, as argparse gives it."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.dlrm.demo",
        description="Trains a DLRM with SOK layers and its twin on plain TensorFlow variables.",
    )
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        default=pathlib.Path("runs/dlrm-demo"),
        help="folder of the TensorBoard summaries (default: %(default)s)",
    )
    parser.add_argument(
        "--train-samples",
        type=int,
        default=1_500_000,
        help="lines to generate and train on (default: %(default)s)",
    )
    parser.add_argument(
        "--test-samples",
        type=int,
        default=200_000,
        help="lines to measure the AUC on (default: %(default)s)",
    )
    parser.add_argument(
        "--time-limit",
        type=float,
        default=170,
        help="seconds from the start after which training ends where it is, "
        "so that slow machines finish, too (default: %(default)s)",
    )
    parser.add_argument(
        "--keep-data", action="store_true", help="leave the generated files in the folder"
    )
    parser.add_argument("--only", choices=settings.BACKENDS, help="train one of the two models")
    parser.add_argument(
        "--ranks",
        type=int,
        default=2,
        help="processes of the run with Horovod at the end, 0 for none (default: %(default)s)",
    )
    settings.add_model_arguments(parser, without=("--backend",))
    return parser.parse_args(arguments)


def program(arguments, stop):
    """Generates, trains, evaluates, reports; returns the exit status."""
    deadline = time.monotonic() + arguments.time_limit
    try:
        backends = [arguments.only] if arguments.only else settings.BACKENDS
        options = {
            backend: settings.model_options(arguments, backend=backend) for backend in backends
        }
        if arguments.train_samples < 2 or arguments.test_samples < 1:
            raise ValueError(
                "the demo needs at least 2 samples to train on (one for each of its two files) "
                f"and 1 to test on, got {arguments.train_samples} and {arguments.test_samples}"
            )
        arguments.out.mkdir(parents=True, exist_ok=True)
    except (ValueError, OSError) as error:
        return console.fail(error)
    console.quiet_tensorflow()
    data_folder = pathlib.Path(tempfile.mkdtemp(prefix="data-", dir=arguments.out))
    try:
        return _run(arguments, options, data_folder, deadline, stop)
    finally:
        if not arguments.keep_data:
            shutil.rmtree(data_folder)


def _run(arguments, options, data_folder, deadline, stop):
    from examples.dlrm import demo_data, demo_report

    data = demo_data.generate(arguments, data_folder, stop)
    if data is None:
        print("interrupted while generating data: nothing has been trained")
        return console.EXIT_INTERRUPTED
    trainers = _make_trainers(options, data)
    meters = _train_in_turn(trainers, arguments, deadline, stop)
    num_trained = min(meter.num_samples for meter in meters.values())
    evaluations = _evaluate(trainers, arguments, stop) if num_trained and not stop.is_set else {}
    for trainer in trainers.values():
        trainer.close()
    titles = {name: _TITLES[name] for name in trainers}
    print(demo_report.table(titles, meters, evaluations, data))
    if stop.is_set:
        print(f"interrupted after {num_trained:,} of {arguments.train_samples:,} samples")
    elif num_trained < arguments.train_samples:
        print(
            f"the time limit of {arguments.time_limit:.0f} s ended training after "
            f"{num_trained:,} of {arguments.train_samples:,} samples; "
            "raise --time-limit to train on all of them"
        )
    print(f"TensorBoard: tensorboard --logdir {arguments.out}")
    if stop.is_set or "sok" not in evaluations:
        return console.EXIT_OK
    steps_alone = (meters["sok"].num_steps, evaluations["sok"])
    return _run_ranks(arguments, options["sok"], data, steps_alone, deadline, stop)


def _run_ranks(arguments, options, data, steps_alone, deadline, stop):
    """The SOK model again, on several processes; returns the exit status.

    Args:
      steps_alone: (number of steps, Evaluation) of one process.
    """
    from examples.dlrm import demo_ranks, demo_report

    num_steps, alone = steps_alone
    if arguments.ranks < 1:
        return console.EXIT_OK
    if not demo_ranks.is_possible():
        print(demo_ranks.INSTALL_HINT)
        return console.EXIT_OK
    print(f"\nthe same {num_steps} steps with sok_compat on {arguments.ranks} processes:")
    outcome = demo_ranks.train(
        arguments.ranks, options, data, num_steps, deadline + _SECONDS_FOR_RANKS, stop
    )
    print(demo_report.ranks_table(arguments.ranks, alone, outcome))
    return console.EXIT_FAILED if outcome.has_failed else console.EXIT_OK


def _make_trainers(options, data):
    """{backend: Trainer}: each reads the files on its own, in its own graph and session."""
    from examples.dlrm import criteo, trainer

    train_files = criteo.inspect_files(data.train_paths)
    test_files = criteo.inspect_files([data.test_path])
    return {
        backend: trainer.Trainer(model_options, train_files, test_files)
        for backend, model_options in options.items()
    }


def _train_in_turn(trainers, arguments, deadline, stop):
    """One pass; for each batch every model makes its step, so that noise hits both alike."""
    from examples.dlrm import progress as progress_module

    run_name = time.strftime("%Y%m%d-%H%M%S")
    folders = {name: arguments.out / run_name / name for name in trainers}
    progress = progress_module.TrainingProgress(trainers, folders, total=arguments.train_samples)
    for trainer in trainers.values():
        trainer.start_pass()
    order = list(trainers)
    while not stop.is_set and time.monotonic() < deadline:
        results = {name: trainers[name].train_step() for name in order}
        if None in results.values():
            break
        for name, result in results.items():
            progress.add(name, result)
        order.reverse()  # neither is always the one that finds the caches full of the other's
    progress.close()
    return progress.meters


def _evaluate(trainers, arguments, stop):
    """{backend: Evaluation} on all test samples; empty when Ctrl-C leaves no time for it."""
    from examples import bars
    from examples.dlrm import evaluation

    evaluations = {}
    bar = bars.Bar("test", arguments.test_samples * len(trainers))
    for name, trainer in trainers.items():
        if not stop.is_set:
            evaluations[name] = evaluation.evaluate(trainer, stop, bar.advance)
    bar.close()
    return {} if stop.is_set else evaluations


def main():
    """The console entry."""
    sys.exit(console.run(program, parse_arguments(None)))


if __name__ == "__main__":
    main()
