# SPDX-License-Identifier: Apache-2.0
"""tf.train.Checkpoint in graph mode: tables with their slots, by the objects that hold them."""

import pytest
import tensorflow as tf

import sok_compat
from tests.support.cases.optimizer_cases import LAZY_ADAM, SOK_ADAM, STOCK_OPTIMIZERS
from tests.support.saves.saved_table import assert_rows_equal

tf1 = tf.compat.v1
STOCK = {str(case): case for case in STOCK_OPTIMIZERS}


class Trained:
    """A layer, its optimizer, and the checkpoint of both."""

    def __init__(self, case):
        layer = sok_compat.All2AllDenseEmbedding(16, 3, 1, 1, dynamic_input=True)
        self.keys = tf1.placeholder(tf.int64, [None])
        table = layer.embedding_variable
        optimizer = case.make()
        gradients = tf.gradients(tf.reduce_sum(tf.sin(layer(self.keys))), [table])
        with sok_compat.OptimizerScope([table]):
            self.step = optimizer.apply_gradients(zip(gradients, [table]))
        self.checkpoint = tf1.train.Checkpoint(layer=layer, optimizer=optimizer)
        self.exported = table.export()

    def train(self, session, *batches):
        for keys in batches:
            session.run(self.step, {self.keys: keys})
        keys, rows = session.run(self.exported)
        return dict(zip(keys.tolist(), rows))


@pytest.mark.parametrize(
    "case", [STOCK["tf1.Adagrad"], STOCK["legacy.Adam"], SOK_ADAM, LAZY_ADAM], ids=str
)
def test_training_goes_on(case, tmp_path):
    first, last = ([3, 1], [4, 3]), ([1, 7], [3, 9])

    def in_new_graph(use):
        with tf.Graph().as_default():
            sok_compat.Init(global_batch_size=8, seed=7)
            trained = Trained(case)
            with tf1.Session() as session:
                return use(trained, session)

    def save(trained, session):
        assert trained.checkpoint.save_counter is not None  # made when asked for
        session.run(tf1.global_variables_initializer())
        trained.train(session, *first)
        return trained.checkpoint.save(str(tmp_path / "model"), session=session)

    def go_on(trained, session):
        trained.checkpoint.restore(path).assert_consumed().run_restore_ops(session)
        return trained.train(session, *last)

    def all_at_once(trained, session):
        session.run(tf1.global_variables_initializer())
        return trained.train(session, *first, *last)

    path = in_new_graph(save)
    assert_rows_equal(in_new_graph(go_on), in_new_graph(all_at_once))
    names = {name.rsplit("/", 1)[-1] for name, _ in tf.train.list_variables(path)}
    assert {"keys", "rows"} <= names
