# SPDX-License-Identifier: Apache-2.0
"""Tables of all three systems in one graph and one tf.train.Checkpoint."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat as sok
from sok_compat.distributed_embeddings.python.layers import dist_model_parallel as dmp
from sok_compat.distributed_embeddings.python.layers.embedding import Embedding
from tests.support.behaviors import IS_TF1

tf1 = tf.compat.v1


class Model:
    """Trained by one optimizer of tf.compat.v1.train, in the default graph and session."""

    def __init__(self):
        from sok_compat import deeprec

        sok.Init(global_batch_size=4, seed=3)
        keys = tf.constant([[1], [3], [3], [2]], tf.int64)
        of_sok = sok.All2AllDenseEmbedding(10, 2, 1, 1)
        of_nvidia = dmp.DistributedEmbedding([Embedding(5, 2, combiner="sum"), Embedding(6, 2)])
        of_deeprec = deeprec.get_embedding_variable("words", embedding_dim=2)
        rows = [
            tf.reshape(of_sok(keys), [4, 2]),
            *(tf.reshape(output, [4, 2]) for output in of_nvidia([keys, keys])),
            deeprec.nn.embedding_lookup(of_deeprec, keys[:, 0]),
        ]
        dense = tf1.get_variable("dense", initializer=np.ones([8, 1], np.float32))
        self.loss = tf.reduce_sum((tf.concat(rows, 1) @ dense) ** 2)
        tables = tf1.trainable_variables()
        with sok.OptimizerScope(sok.split_embedding_variable_from_others(tables)[0]):
            optimizer = deeprec.train.AdagradOptimizer(0.1)
            self._train = optimizer.minimize(self.loss)
        self.checkpoint = tf.train.Checkpoint(
            sok=of_sok, nvidia=of_nvidia, deeprec=of_deeprec, dense=dense, optimizer=optimizer
        )

    def steps(self, session, number):
        """The loss before each."""
        return [session.run([self.loss, self._train])[0] for _ in range(number)]


@pytest.mark.skipif(not IS_TF1, reason="deeprec switches the behaviour of TensorFlow 1 on")
def test_one_checkpoint_of_three_systems(tmp_path):
    with tf.Graph().as_default(), tf1.Session() as session:
        model = Model()
        session.run(tf1.global_variables_initializer())
        model.steps(session, 2)
        path = model.checkpoint.write(str(tmp_path / "saved"))
        on = model.steps(session, 2)
    with tf.Graph().as_default(), tf1.Session() as session:
        again = Model()
        again.checkpoint.read(path).initialize_or_restore(session)
        np.testing.assert_allclose(again.steps(session, 2), on, rtol=1e-6)


@pytest.mark.skipif(not IS_TF1, reason="deeprec switches the behaviour of TensorFlow 1 on")
def test_part_of_a_table_raises(tmp_path):
    from sok_compat import deeprec

    halves = tf1.fixed_size_partitioner(2)
    words = deeprec.get_embedding_variable("words", embedding_dim=2, partitioner=halves)
    with tf1.Session(), pytest.raises(NotImplementedError, match="words.*, part 0 of 2 of a table"):
        tf.train.Checkpoint(part=words.table_parts[0]).write(str(tmp_path / "saved"))
