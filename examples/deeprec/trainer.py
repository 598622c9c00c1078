# SPDX-License-Identifier: Apache-2.0
"""The model in a graph and a session: a pass of training, step by step, and evaluation."""

import time

import tensorflow as tf

from examples.deeprec import model
from examples.dlrm import malformed, reader
from examples.dlrm.meter import StepResult


class Trainer:
    """Trains on `train_files` and evaluates on `test_files` (lists of criteo.CriteoFile).

    Of several ranks (examples.dlrm.ranks), all must make the same calls: each works on its share of
    every batch, and each gets the results of the whole batch. They train as one process by the
    strategy 'collective', which is enabled before.
    """

    def __init__(self, options, train_files, test_files, ranks):
        self.ranks = ranks
        self.malformed = _malformed_of(train_files)
        self.test_malformed = _malformed_of(test_files)
        self.graph = tf.Graph()
        with self.graph.as_default():
            tf.set_random_seed(options.seed)
            batch = self._read(options, train_files, test_files)
            logits = model.logits_of(batch, options)
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=batch.labels, logits=logits)
            # The mean over ranks is that over the batch; a short last batch weighs less.
            loss = tf.reduce_sum(losses) * (ranks.size / options.batch_size)
            train = model.train_op_of(loss, options)
            self._predict = self._gather(batch.labels, tf.sigmoid(logits), losses)
            self._train = (self._predict, train)
            self._session = tf.train.MonitoredTrainingSession(log_step_count_steps=None)

    def _read(self, options, train_files, test_files):
        """The next batch, of whichever files were begun last."""
        train, test = (
            reader.read_batches(files, counts, options.batch_size, self.ranks.rank, self.ranks.size)
            for files, counts in (
                (train_files, self.malformed),
                (test_files, self.test_malformed),
            )
        )
        iterator = tf.data.Iterator.from_structure(
            tf.data.get_output_types(train), tf.data.get_output_shapes(train)
        )
        self._begin_training = iterator.make_initializer(train)
        self._begin_test = iterator.make_initializer(test)
        return iterator.get_next()

    def _gather(self, *columns):
        """[batch share] each -> [columns, batch]: an AUC needs the scores of all ranks at once."""
        return tf.transpose(self.ranks.gather(tf.stack(columns, axis=1)))

    def start_pass(self):
        """Begins the training files again; the counts of malformed lines begin again, too."""
        self.malformed.reset()
        self._session.run(self._begin_training)

    def train_step(self):
        """A StepResult of the next batch; None when the files have been read."""
        start = time.perf_counter()
        try:
            (labels, probabilities, losses), _ = self._session.run(self._train)
        except tf.errors.OutOfRangeError:
            return None
        seconds = time.perf_counter() - start
        return StepResult(float(losses.mean()), labels, probabilities, seconds)

    def test_batches(self):
        """Yields (labels, probabilities) of the test files, batch by batch."""
        self.test_malformed.reset()
        self._session.run(self._begin_test)
        while True:
            try:
                labels, probabilities, _ = self._session.run(self._predict)
            except tf.errors.OutOfRangeError:
                return
            yield labels, probabilities

    def close(self):
        """Frees the session."""
        self._session.close()


def _malformed_of(files):
    return malformed.MalformedLines([file.path for file in files], files[0].layout)
