# SPDX-License-Identifier: Apache-2.0
"""One model in one graph and one session: a pass of training, step by step, and evaluation."""

import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from examples.dlrm import embedding as embedding_module
from examples.dlrm import malformed, model, optimizers, reader

tf1 = tf.compat.v1


class StepResult(NamedTuple):
    """What one training step shows; the probabilities are those before the update."""

    loss: float  # mean over the batch
    labels: np.ndarray  # [batch]
    probabilities: np.ndarray  # [batch]
    seconds: float


class Trainer:
    """Trains on `train_files` and evaluates on `test_files` (lists of criteo.CriteoFile)."""

    def __init__(self, options, train_files, test_files=()):
        self.options = options
        self.malformed = _malformed_of(train_files)
        self.test_malformed = _malformed_of(test_files) if test_files else None
        self.graph = tf.Graph()
        with self.graph.as_default():
            tf1.set_random_seed(options.seed)
            session_init = self._build(train_files, test_files)
            initialize = tf1.global_variables_initializer()
        self.session = tf1.Session(graph=self.graph)
        if session_init is not None:
            self.session.run(session_init)
        self.session.run(initialize)

    def _build(self, train_files, test_files):
        options = self.options
        embedding = embedding_module.make_embedding(options)
        dlrm = model.Dlrm(options)
        self._train_iterator = tf1.data.make_initializable_iterator(
            reader.read_batches(train_files, self.malformed, options.global_batch_size)
        )
        batch = self._train_iterator.get_next()
        logits = dlrm(batch.dense, embedding(batch.keys, training=True))
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=batch.labels, logits=logits)
        # The constant global batch size, also for a short last batch: each sample weighs the same.
        loss = tf.reduce_sum(losses) / options.global_batch_size
        train_op = optimizers.training_op(loss, embedding, options)
        # Fetched together with the update, computed from what was read before it.
        self._step = (tf.reduce_mean(losses), batch.labels, tf.sigmoid(logits), train_op)
        if test_files:
            self._build_test(dlrm, embedding, test_files)
        return embedding.session_init

    def _build_test(self, dlrm, embedding, test_files):
        self._test_iterator = tf1.data.make_initializable_iterator(
            reader.read_batches(test_files, self.test_malformed, self.options.global_batch_size)
        )
        batch = self._test_iterator.get_next()
        logits = dlrm(batch.dense, embedding(batch.keys, training=False))
        self._predict = (batch.labels, tf.sigmoid(logits))

    def start_pass(self):
        """Begins the training files again; the counts of malformed lines begin again, too."""
        self.malformed.reset()
        self.session.run(self._train_iterator.initializer)

    def train_step(self):
        """Trains on the next batch; None when the files have been read."""
        start = time.perf_counter()
        try:
            loss, labels, probabilities, _ = self.session.run(self._step)
        except tf.errors.OutOfRangeError:
            return None
        return StepResult(float(loss), labels, probabilities, time.perf_counter() - start)

    def test_batches(self):
        """Yields (labels, probabilities) of the test files, batch by batch."""
        self.test_malformed.reset()
        self.session.run(self._test_iterator.initializer)
        while True:
            try:
                yield self.session.run(self._predict)
            except tf.errors.OutOfRangeError:
                return

    def close(self):
        """Frees the session."""
        self.session.close()


def _malformed_of(files):
    return malformed.MalformedLines([file.path for file in files], files[0].layout)
