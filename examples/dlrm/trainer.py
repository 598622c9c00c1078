# SPDX-License-Identifier: Apache-2.0
"""One model in one graph and one session: a pass of training, step by step, and evaluation."""

import tensorflow as tf

from examples.dlrm import embedding as embedding_module
from examples.dlrm import model, optimizers, reader
from examples.dlrm import ranks as ranks_module
from examples.dlrm.passes import Passes

tf1 = tf.compat.v1


class Trainer(Passes):
    """Trains on `train_files` and evaluates on `test_files` (lists of criteo.CriteoFile)."""

    def __init__(self, options, train_files, test_files=(), ranks=None):
        super().__init__(train_files, test_files, ranks or ranks_module.OneRank())
        self.options = options
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
        iterator = self._make_iterator(train_files, self.malformed)
        self.begin_training = iterator.initializer
        batch = iterator.get_next()
        logits = dlrm(batch.dense, embedding(batch.keys, training=True))
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=batch.labels, logits=logits)
        # The constant global batch size, on every rank and also for a short last batch: each sample
        # weighs the same.
        loss = tf.reduce_sum(losses) / options.global_batch_size
        train_op = optimizers.training_op(loss, embedding, options, self.ranks)
        # Fetched together with the update, computed from what was read before it.
        self.training = (self.gather(batch.labels, tf.sigmoid(logits), losses), train_op)
        if test_files:
            self._build_test(dlrm, embedding, test_files)
        return embedding.session_init

    def _build_test(self, dlrm, embedding, test_files):
        iterator = self._make_iterator(test_files, self.test_malformed)
        self.begin_test = iterator.initializer
        batch = iterator.get_next()
        logits = dlrm(batch.dense, embedding(batch.keys, training=False))
        self.prediction = self.gather(batch.labels, tf.sigmoid(logits))

    def _make_iterator(self, files, malformed_lines):
        dataset = reader.read_batches(
            files, malformed_lines, self.options.global_batch_size, self.ranks.rank, self.ranks.size
        )
        return tf1.data.make_initializable_iterator(dataset)
