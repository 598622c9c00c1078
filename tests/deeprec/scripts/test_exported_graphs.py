# SPDX-License-Identifier: Apache-2.0
"""SavedModels of ordinary variables that a launched script writes have TensorFlow's ops alone."""

import pytest

from tests.packaging.environments import write_files
from tests.support.processes.subprocess_python import run_python

SCRIPT = """
import numpy as np
import tensorflow as tf

fc = tf.feature_column
words = tf.placeholder(tf.string, [None])
bags = tf.strings.split(words, "|")
weights = bags.with_values(tf.cast(tf.range(tf.size(bags.values)), tf.float32) + 0.5)
features = {"words": bags, "weights": weights, "dense": words}
sequence = fc.embedding_column(
    fc.sequence_categorical_column_with_hash_bucket("words", 50), 4)
of_words = fc.categorical_column_with_hash_bucket("words", 40)
columns = [fc.embedding_column(of_words, 3),
           fc.embedding_column(fc.categorical_column_with_hash_bucket("dense", 20), 2)]
with fc.group_embedding_column_scope("weighted"):
    columns.append(fc.embedding_column(fc.weighted_categorical_column(of_words, "weights"), 3))
steps, lengths = tf.contrib.feature_column.sequence_input_layer(features, [sequence])
layer = fc.input_layer(features, columns)
ragged = tf.RaggedTensor.from_row_lengths(tf.constant([1, 2, 5, 5], tf.int64), [1, 0, 3])
table = tf.get_variable("v", [9, 2])
(of_ragged,) = tf.nn.group_embedding_lookup_sparse([table], [ragged], ["sum"])
train = tf.train.AdamOptimizer(0.1).minimize(
    tf.reduce_sum(steps) + tf.reduce_sum(layer) + tf.reduce_sum(of_ragged))
outputs = {"steps": steps, "lengths": lengths, "layer": layer, "ragged": of_ragged}
batch = {words: ["a|b", "", "c|a|z"]}
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(train, batch)
    np.savez("expected.npz", **session.run(outputs, batch))
    tf.saved_model.simple_save(session, "served", {"words": words}, outputs)
"""

SERVER = """
import sys
import numpy as np
import tensorflow as tf

serve = tf.saved_model.load("served").signatures["serving_default"]
served = serve(words=tf.constant(["a|b", "", "c|a|z"]))
assert "sok_compat.runtime.op_library" not in sys.modules
expected = np.load("expected.npz")
assert sorted(expected) == sorted(served) and expected["layer"].shape == (3, 8)
for name in expected:
    np.testing.assert_allclose(served[name], expected[name], rtol=1e-6)
    assert np.any(expected[name])
print("served")
"""


def test_a_process_without_our_ops_serves_them(tmp_path):
    write_files(tmp_path, {"script.py": SCRIPT})
    begin = f"import os\nos.chdir({str(tmp_path)!r})\n"
    run_python(f"{begin}from sok_compat.run.program import main\nmain(['script.py'])")
    assert run_python(begin + SERVER, is_fresh=True).splitlines()[-1] == "served"


UPDATES = """
import numpy as np
import tensorflow as tf

tf.get_variable_scope().set_use_resource({of_resources})
ids = tf.placeholder(tf.int64, [None])
table = tf.get_variable("table", [9, 2], initializer=tf.random_uniform_initializer(seed=1))
bias = tf.get_variable("bias", [2], initializer=tf.zeros_initializer())
outputs = tf.nn.embedding_lookup(table, ids) + bias
optimizer = tf.train.{optimizer}
loss = tf.reduce_sum(outputs ** 2)
train = optimizer.minimize(loss, tf.train.get_or_create_global_step(), name="train")
batches = [{{ids: [3, 5, 3, 0]}}, {{ids: [7]}}] * 2  # Adam moves row 7 by the others, too
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(train, {{ids: [7, 3]}})
    tf.saved_model.simple_save(session, "served", {{"ids": ids}}, {{"outputs": outputs}})
    losses = [session.run([loss, train], batch)[0] for batch in batches]
    np.savez("expected.npz", losses=losses, ids=ids.name, loss=loss.name)
"""

TRAINED_ON = """
import sys
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
expected = np.load("expected.npz")
with tf.Session() as session:
    tf.saved_model.loader.load(session, ["serve"], "served")
    ops = {op.type for op in session.graph.get_operations()}
    assert not [op for op in ops if op.startswith("Sok")], ops
    losses = [session.run([str(expected["loss"]), "train"], {str(expected["ids"]): keys})[0]
              for keys in [[3, 5, 3, 0], [7]] * 2]
assert "sok_compat.runtime.op_library" not in sys.modules
assert losses[2] < losses[0] and losses[3] < losses[1]
np.testing.assert_allclose(losses, expected["losses"], rtol=1e-5)
print("trained")
"""


@pytest.mark.parametrize("optimizer", [
    "AdamAsyncOptimizer(0.01)",
    "AdamAsyncOptimizer(0.0005, apply_sparse_rmsprop=True)",
    "AdamOptimizer(0.01)",
])  # fmt: skip
@pytest.mark.parametrize("of_resources", [False, True])
def test_a_graph_of_training_can_be_loaded_and_trains_on(tmp_path, of_resources, optimizer):
    script = UPDATES.format(of_resources=of_resources, optimizer=optimizer)
    write_files(tmp_path, {"script.py": script})
    begin = f"import os\nos.chdir({str(tmp_path)!r})\n"
    run_python(f"{begin}from sok_compat.run.program import main\nmain(['script.py'])")
    assert run_python(begin + TRAINED_ON, is_fresh=True).splitlines()[-1] == "trained"
