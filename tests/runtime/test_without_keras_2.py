# SPDX-License-Identifier: Apache-2.0
"""Where there is no Keras 2, as with TensorFlow 2.16 and later without tf-keras, all works that
needs no Keras, and the rest says how to get it."""

import pytest

from sok_compat.runtime.tf_versions import VERSION
from tests.support.processes.subprocess_python import run_python

SOK_2 = """
import tensorflow as tf
import sparse_operation_kit as sok
sok.init()
table = sok.DynamicVariable(2, "ones", name="table")
ids = tf.RaggedTensor.from_row_lengths(tf.constant([1, 2, 1], tf.int64), [2, 1])
for optimizer in (tf.compat.v1.train.AdamOptimizer(0.1), tf.compat.v1.train.AdagradOptimizer(0.1)):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(sok.lookup_sparse(table, ids, combiners="sum"))
    sok.OptimizerWrapper(optimizer).apply_gradients([(tape.gradient(loss, table), table)])
tf.train.Checkpoint(table=table).save("saved/checkpoint")
print(int(table.size[0]), float(loss) < 6)
"""
DEEPREC = """
import sok_compat.deeprec as tf
table = tf.get_embedding_variable("table", embedding_dim=2, initializer=tf.ones_initializer())
rows = tf.nn.embedding_lookup(table, tf.constant([7, 7, 8], tf.int64))
train = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(rows))
saver = tf.train.Saver()
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(train)
    saver.save(session, "saved/model")
    print(session.run(rows)[0, 0] < 1)
"""
LAYER = """
import sparse_operation_kit as sok
try:
    sok.All2AllDenseEmbedding(16, 2, 1, 1)
except ImportError as error:
    print(error)
"""
EMBEDDINGS = """
try:
    from distributed_embeddings.python.layers.embedding import Embedding
except ImportError as error:
    print(error)
"""


def run(folder, script):
    begin = (
        "import os, sys; sys.modules['tf_keras'] = None; os.environ['TF_USE_LEGACY_KERAS'] = '1';"
        f" os.chdir({str(folder)!r})\n"
    )
    return run_python(begin + script, is_fresh=True).splitlines()[-1]


@pytest.mark.thorough
@pytest.mark.parametrize(("script", "printed"), [(SOK_2, "2 True"), (DEEPREC, "True")])
def test_what_needs_no_keras_works(tmp_path, script, printed):
    if script is SOK_2 and VERSION < (2, 16):
        pytest.skip("sok.init imports Horovod, which needs this TensorFlow's Keras")
    assert run(tmp_path, script) == printed


@pytest.mark.thorough
@pytest.mark.parametrize("script", [LAYER, EMBEDDINGS])
def test_layers_say_what_to_install(tmp_path, script):
    output = run(tmp_path, script)
    assert f"pip install tf-keras~={VERSION[0]}.{VERSION[1]}.0" in output
    assert "TF_USE_LEGACY_KERAS=1" in output
