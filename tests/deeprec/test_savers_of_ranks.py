# SPDX-License-Identifier: Apache-2.0
"""The saver that sessions of several ranks take by themselves: without embedding variables."""

import logging
import types

import tensorflow as tf

from sok_compat.deeprec import embedding_variable
from sok_compat.deeprec.variable_creation import get_embedding_variable

tf1 = tf.compat.v1


def test_it_saves_and_restores_the_others_with_a_warning(graph, tmp_path, caplog):
    variable = get_embedding_variable("v", 2)
    dense = tf1.get_variable("dense", initializer=[1.0, 2.0])
    embedding_variable._tell_tensorflow_of_tables(
        types.SimpleNamespace(ranks=types.SimpleNamespace(size=2), words=variable.words)
    )
    (saver,) = tf1.get_collection(tf1.GraphKeys.SAVERS)
    saver.build()
    with tf1.Session() as session, caplog.at_level(logging.WARNING, "sok_compat"):
        session.run(tf1.global_variables_initializer())
        path = saver.save(session, str(tmp_path / "model"))
        session.run(dense.assign([0.0, 0.0]))
        saver.restore(session, path)
        assert session.run(dense).tolist() == [1.0, 2.0]
    assert tf.train.list_variables(path) == [("dense", [2])]
    assert "save them with tf.train.Saver in one process, or by what export()" in caplog.text
    assert "are empty, and fill with keys as they come" in caplog.text
