# SPDX-License-Identifier: Apache-2.0
"""Passes over files, batch by batch, in a session; and what is told of them."""

import time

import tensorflow as tf

from examples.dlrm import malformed
from examples.dlrm.meter import StepResult
from examples.dlrm.progress import TrainingProgress


class Passes:
    """Steps of a model over the batches of `train_files` and `test_files` (criteo.CriteoFile).

    Of several ranks (ranks.HorovodRanks), all must make the same calls: each works on its share of
    every batch, and each gets the results of the whole batch.

    Whoever derives from it sets `session`, and of its graph: `begin_training` and `begin_test`, ops
    that begin the files again; `training`, (what `gather` makes of labels, probabilities and
    losses, the op that trains); `prediction`, what `gather` makes of labels and probabilities.
    """

    def __init__(self, train_files, test_files, ranks):
        self.ranks = ranks
        self.malformed = _malformed_of(train_files)
        self.test_malformed = _malformed_of(test_files) if test_files else None
        self.graph = tf.Graph()

    def gather(self, *columns):
        """[batch share] each -> [columns, batch]: an AUC needs the scores of all ranks at once."""
        return tf.transpose(self.ranks.gather(tf.stack(columns, axis=1)))

    def start_pass(self):
        """Begins the training files again; the counts of malformed lines begin again, too."""
        self.malformed.reset()
        self.session.run(self.begin_training)

    def train_step(self):
        """A StepResult of the next batch; None when the files have been read."""
        start = time.perf_counter()
        try:
            (labels, probabilities, losses), _ = self.session.run(self.training)
        except tf.errors.OutOfRangeError:
            return None
        seconds = time.perf_counter() - start
        return StepResult(float(losses.mean()), labels, probabilities, seconds)

    def test_batches(self):
        """Yields (labels, probabilities) of the test files, batch by batch."""
        self.test_malformed.reset()
        self.session.run(self.begin_test)
        while True:
            try:
                yield self.session.run(self.prediction)
            except tf.errors.OutOfRangeError:
                return

    def close(self):
        """Frees the session."""
        self.session.close()


def train_by_passes(trainer, name, summaries, arguments, stop):
    """Trains, with a live line on the first rank.

    Args:
      trainer: Passes.
      name: of the model.
      summaries: folder of the first rank's summaries; None: none.
      arguments: with `epochs`, how many passes, and `max_steps`, after which it ends, or None.
      stop: ends it when `stop.is_set`.

    Returns:
      (the TrainingProgress, what to say of malformed lines: of the first pass that had any).
    """
    is_first = trainer.ranks.rank == 0
    folders = {name: summaries if is_first else None}
    progress = TrainingProgress({name: trainer}, folders, is_shown=is_first)
    reports = []
    for _ in range(arguments.epochs):
        has_ended = _train_one_pass(trainer, name, progress, arguments.max_steps, stop)
        reports = reports or trainer.malformed.report()
        if has_ended:
            break
    progress.close()
    return progress, reports


def _train_one_pass(trainer, name, progress, max_steps, stop):
    """Whether it ended before the files did."""
    trainer.start_pass()
    while not stop.is_set and progress.meters[name].num_steps != max_steps:
        result = trainer.train_step()
        if result is None:
            return False
        progress.add(name, result)
    return True


def _malformed_of(files):
    return malformed.MalformedLines([file.path for file in files], files[0].layout)
