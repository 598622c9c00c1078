# SPDX-License-Identifier: Apache-2.0
"""SavedModels of ordinary variables that a launched script writes have TensorFlow's ops alone."""

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
