# SPDX-License-Identifier: Apache-2.0
"""One model in one graph and one session: a pass of training, step by step, and evaluation."""

import time

import tensorflow as tf

from examples.dlrm import embedding as embedding_module
from examples.dlrm import malformed, model, optimizers, reader
from examples.dlrm import ranks as ranks_module
from examples.dlrm.meter import StepResult

tf1 = tf.compat.v1


class Trainer:
    """Trains on `train_files` and evaluates on `test_files` (lists of criteo.CriteoFile).

    Of several ranks (ranks.HorovodRanks), all must make the same calls: each works on its share of
    every batch, and each gets the results of the whole batch.
    """

    def __init__(self, options, train_files, test_files=(), ranks=None):
        self.options = options
        self.ranks = ranks or ranks_module.OneRank()
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
        self._train_iterator = self._make_iterator(train_files, self.malformed)
        batch = self._train_iterator.get_next()
        logits = dlrm(batch.dense, embedding(batch.keys, training=True))
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=batch.labels, logits=logits)
        # The constant global batch size, on every rank and also for a short last batch: each sample
        # weighs the same.
        loss = tf.reduce_sum(losses) / options.global_batch_size
        train_op = optimizers.training_op(loss, embedding, options, self.ranks)
        # Fetched together with the update, computed from what was read before it.
        self._step = (self._gather(batch.labels, tf.sigmoid(logits), losses), train_op)
        if test_files:
            self._build_test(dlrm, embedding, test_files)
        return embedding.session_init

    def _build_test(self, dlrm, embedding, test_files):
        self._test_iterator = self._make_iterator(test_files, self.test_malformed)
        batch = self._test_iterator.get_next()
        logits = dlrm(batch.dense, embedding(batch.keys, training=False))
        self._predict = self._gather(batch.labels, tf.sigmoid(logits))

    def _make_iterator(self, files, malformed_lines):
        dataset = reader.read_batches(
            files, malformed_lines, self.options.global_batch_size, self.ranks.rank, self.ranks.size
        )
        return tf1.data.make_initializable_iterator(dataset)

    def _gather(self, *columns):
        """[batch share] each -> [columns, batch]: an AUC needs the scores of all ranks at once."""
        return tf.transpose(self.ranks.gather(tf.stack(columns, axis=1)))

    def start_pass(self):
        """Begins the training files again; the counts of malformed lines begin again, too."""
        self.malformed.reset()
        self.session.run(self._train_iterator.initializer)

    def train_step(self):
        """Trains on the next batch; None when the files have been read."""
        start = time.perf_counter()
        try:
            (labels, probabilities, losses), _ = self.session.run(self._step)
        except tf.errors.OutOfRangeError:
            return None
        seconds = time.perf_counter() - start
        return StepResult(float(losses.mean()), labels, probabilities, seconds)

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
