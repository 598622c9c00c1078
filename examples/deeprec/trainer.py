# SPDX-License-Identifier: Apache-2.0
"""The model's graph and session, for training and evaluation."""

import tensorflow as tf

from examples.deeprec import model
from examples.dlrm import reader
from examples.dlrm.passes import Passes


class Trainer(Passes):
    """Trains on `train_files` and evaluates on `test_files` (lists of criteo.CriteoFile).

    Several ranks train as one under the strategy 'collective', which must already be enabled.
    """

    def __init__(self, options, train_files, test_files, ranks):
        super().__init__(train_files, test_files, ranks)
        with self.graph.as_default():
            tf.set_random_seed(options.seed)
            batch = self._read(options, train_files, test_files)
            logits = model.logits_of(batch, options)
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=batch.labels, logits=logits)
            # The mean over ranks is the mean over the batch; a short last batch weighs less.
            loss = tf.reduce_sum(losses) * (ranks.size / options.batch_size)
            probabilities = tf.sigmoid(logits)
            train = model.train_op_of(loss, options)
            self.training = (self.gather(batch.labels, probabilities, losses), train)
            self.prediction = self.gather(batch.labels, probabilities)
            self.session = tf.train.MonitoredTrainingSession(log_step_count_steps=None)

    def _read(self, options, train_files, test_files):
        """The next batch of the training or test files, whichever were begun last."""
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
        self.begin_training = iterator.make_initializer(train)
        self.begin_test = iterator.make_initializer(test)
        return iterator.get_next()
