# SPDX-License-Identifier: Apache-2.0
"""Moving averages of variables: those of tables are refused, others are as ever."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from tests.support.cases.layer_cases import LayerCase
from tests.support.sessions import initialized_session

CASE = LayerCase("dynamic", True, "int64", dim=3)


@pytest.mark.parametrize("is_graph", [True, False], ids=["graph", "eager"])
@pytest.mark.parametrize("average", [
    tf.train.ExponentialMovingAverage, tf.compat.v1.train.ExponentialMovingAverage,
], ids=["tf2", "tf1"])  # fmt: skip
def test_averages_of_tables_are_refused(average, is_graph):
    with tf.Graph().as_default() if is_graph else tf.init_scope():
        sok_compat.Init(global_batch_size=8)
        table = CASE.make_layer().embedding_variable
        message = f"average tables, got .*{table.m_var_name}.*split_embedding_variable_from_others"
        with pytest.raises(NotImplementedError, match=message):
            average(0.5).apply([table])
        if is_graph:  # all trainable variables
            with pytest.raises(NotImplementedError, match=message):
                average(0.5).apply()


def test_averages_of_other_variables(sok):
    layer = CASE.make_layer()
    plain = tf.compat.v1.get_variable("plain", initializer=[1.0, 3.0])
    variables = tf.compat.v1.trainable_variables()
    assert any(v is layer.embedding_variable for v in variables)
    others = sok.split_embedding_variable_from_others(variables)[1]
    averages = tf.train.ExponentialMovingAverage(0.75)
    with tf.control_dependencies([plain.assign([5.0, 3.0])]):
        step = averages.apply(others)
    with initialized_session() as session:
        session.run(step)
        np.testing.assert_allclose(session.run(averages.average(plain)), [2.0, 3.0])
