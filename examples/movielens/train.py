# SPDX-License-Identifier: Apache-2.0
"""`python -m examples.movielens.train --data DIR`: predicts ratings. See README.md."""

import argparse
import pathlib
import sys
from typing import NamedTuple

from examples import console
from examples.movielens import baseline, reader, settings, split

_VALIDATION_FRACTION = 0.1


class Result(NamedTuple):
    """The test errors of one run."""

    title: str  # 'seed 1', 'fold 1'
    baseline: float
    model: float


class Data(NamedTuple):
    """All that is read of the folder."""

    users: dict  # {id: reader.User}
    items: dict  # {id: reader.Item}
    training: reader.Ratings
    test: reader.Ratings  # empty: to be split from `training`


def parse_arguments(arguments):
    """The command line, as argparse gives it."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.movielens.train",
        description="Predicts the ratings of MovieLens 100K, beside user and item biases.",
    )
    parser.add_argument(
        "--data", required=True, type=pathlib.Path, metavar="DIR", help="the folder of ml-100k"
    )
    parser.add_argument(
        "--fold",
        metavar="NAME",
        help="train on NAME.base and test on NAME.test, u1 for example "
        "(default: random ratings of u.data)",
    )
    parser.add_argument(
        "--test-fraction",
        type=float,
        default=0.1,
        help="of the ratings of u.data, without --fold (default: %(default)s)",
    )
    parser.add_argument(
        "--folds",
        type=int,
        default=0,
        help="cross-validation: each run holds out another of that many equal parts of u.data",
    )
    parser.add_argument(
        "--validate",
        action="store_true",
        help="leave the test ratings alone and measure on a tenth of the training ratings: "
        "for the choice of options",
    )
    parser.add_argument(
        "--runs", type=int, default=3, help="with one seed each (default: %(default)s)"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        help="of the first run's split, order and first values (default: %(default)s)",
    )
    parser.add_argument(
        "--summaries", type=pathlib.Path, metavar="DIR", help="write TensorBoard summaries there"
    )
    settings.add_model_arguments(parser)
    return parser.parse_args(arguments)


def program(arguments, stop):
    """Trains, tests, reports; returns the exit status."""
    try:
        options = settings.model_options(arguments)
        if arguments.runs < 1 or arguments.seed < 1:
            raise ValueError(
                f"runs and seed must be at least 1, got {arguments.runs} and {arguments.seed}"
            )
        if arguments.folds and (arguments.folds < 2 or arguments.fold):
            raise ValueError(f"folds must be at least 2, without --fold, got {arguments.folds}")
        data = read(arguments.data, arguments.fold)
        if arguments.summaries:
            arguments.summaries.mkdir(parents=True, exist_ok=True)
        seeds = range(arguments.seed, arguments.seed + (arguments.folds or arguments.runs))
        parts = {seed: split_of(data, arguments, seed) for seed in seeds}
    except (ValueError, OSError) as error:
        return console.fail(error)
    console.quiet_tensorflow()
    results = []
    for number, (seed, (training, held_out)) in enumerate(parts.items(), 1):
        title = f"fold {number}" if arguments.folds else f"seed {seed}"
        result = run(data, training, held_out, options, seed, title, arguments.summaries, stop)
        if result is None:
            print(f"interrupted in the run of {title}")
            break
        results.append(result)
    print(report(results, "validation" if arguments.validate else "test"))
    return console.EXIT_OK


def read(folder, fold):
    """Data of the folder; ValueError and OSError say what is wrong with it."""
    users, items = reader.read_users(folder), reader.read_items(folder)
    names = [f"{fold}.base", f"{fold}.test"] if fold else [reader.RATINGS_FILE]
    ratings = [reader.read_ratings(folder, name, users, items) for name in names]
    return Data(users, items, ratings[0], ratings[1] if fold else ratings[0].take(slice(0)))


def split_of(data, arguments, seed):
    """(ratings to train on, ratings to measure on) of the run with this seed."""
    training, held_out = data.training, data.test
    if arguments.folds:
        part = seed - arguments.seed
        rest, places = split.fold(len(training), arguments.folds, part, arguments.seed)
        training, held_out = training.take(rest), training.take(places)
    elif not arguments.fold:
        rest, places = split.random_split(len(training), arguments.test_fraction, seed)
        training, held_out = training.take(rest), training.take(places)
    if arguments.validate:
        rest, places = split.random_split(len(training), _VALIDATION_FRACTION, seed)
        training, held_out = training.take(rest), training.take(places)
    return training, held_out


def run(data, training, held_out, options, seed, title, summaries, stop):
    """The Result of one split; None after Ctrl-C."""
    from examples.movielens import features, trainer

    biases = baseline.fit_tuned(training, max(data.users) + 1, max(data.items) + 1, seed)
    baseline_error = baseline.rmse(biases.predict(held_out), held_out.values)
    model = trainer.Trainer(
        options, features.Features(data.users, data.items, training), training, seed
    )
    folder = summaries and summaries / f"seed-{seed}"
    train(model, len(training), title, folder, stop)
    error = None if stop.is_set else baseline.rmse(model.predict(held_out), held_out.values)
    model.close()
    return None if stop.is_set else Result(title, baseline_error, error)


def train(model, num_ratings, title, folder, stop):
    """All epochs, or fewer after Ctrl-C, with a live line and, for a folder, summaries."""
    from examples import bars, summaries

    writer = summaries.Summaries(folder, model.graph)
    bar = bars.Bar(title, num_ratings * model.options.epochs)
    for epoch in range(1, model.options.epochs + 1):
        squares = num_seen = 0
        for num_new, error in model.train_epoch():
            squares, num_seen = squares + num_new * error**2, num_seen + num_new
            bar.show(f"epoch {epoch} training RMSE {(squares / num_seen) ** 0.5:.4f}")
            bar.advance(num_new)
            if stop.is_set:
                break
        writer.write(epoch, training_rmse=(squares / num_seen) ** 0.5)
        if stop.is_set:
            break
    bar.close()
    writer.close()


def report(results, what):
    """Text: a row for each run, and their mean."""
    if not results:
        return f"no {what} RMSE: no run has ended"
    rows = [tuple(result) for result in results]
    means = [sum(column) / len(rows) for column in list(zip(*rows))[1:]]
    rows.append(("mean", *means))
    lines = [f"{what + ' RMSE':<18}{'user+item bias':>16}{'sok_compat':>16}{'difference':>16}"]
    lines.append("-" * len(lines[0]))
    for name, biases, model in rows:
        lines.append(f"{name:<18}{biases:>16.4f}{model:>16.4f}{model - biases:>+16.4f}")
    return "\n".join(["", *lines])


def main():
    """The console entry."""
    sys.exit(console.run(program, parse_arguments(None)))


if __name__ == "__main__":
    main()
