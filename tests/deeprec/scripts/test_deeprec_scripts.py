# SPDX-License-Identifier: Apache-2.0
"""Embedding variables after tf.compat.v1.disable_v2_behavior(), as scripts for DeepRec run."""

from tests.support.processes.subprocess_python import run_python

SCRIPT = """
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
from sok_compat.deeprec.lookups import group_lookup, stock_lookups
from sok_compat.deeprec.optimizer_rules import train_optimizers
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable

with tf.variable_scope("scope", reuse=tf.AUTO_REUSE, partitioner=None):
    first, again = (get_embedding_variable("v", 4, initializer=tf.ones_initializer) for _ in "ab")
assert first is again and first.shape[-1].value == 4 and first.get_shape()[0] == 4
other = get_embedding_variable("w", 2, initializer=lambda shape, dtype: tf.zeros(shape, dtype))
ordinary = tf.get_variable("ordinary", [5, 3])
ids = tf.SparseTensor([[0, 0], [2, 1]], tf.placeholder_with_default([1, 4], [2]), [4, 2])
outputs = group_lookup.group_embedding_lookup_sparse(
    [first, ordinary, other, first], [ids] * 4, ["sum", "mean", "mean", "sum"])
safe = stock_lookups.safe_embedding_lookup_sparse(first, ids, combiner="sqrtn", default_id=7)
dense = tf.concat(outputs + [safe], 1)
assert dense.shape[1].value == 17
hidden = tf.layers.dense(dense, 1, kernel_initializer=tf.ones_initializer())
loss = tf.reduce_sum(hidden)
step = train_optimizers.AdamOptimizer(0.5).minimize(loss, tf.train.get_or_create_global_step())
with tf.Session() as session:
    session.run(tf.get_collection("ev_init_var_ops"))
    session.run(tf.get_collection("ev_init_slot_ops"))
    session.run(tf.global_variables_initializer())
    session.run(step)
    keys, rows, _, _ = session.run(first.export())
    assert sorted(keys) == [1, 4, 7], keys
    np.testing.assert_allclose(rows, 0.5, rtol=1e-4)
    session.run(step)
    assert session.run(first.total_count()).tolist() == [3, 4]
    assert session.run(other.total_count()).tolist() == [2, 2]
try:
    first + 1.0
except NotImplementedError:
    print("done")
"""


OWN_OPTIMIZERS = """
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
from sok_compat.deeprec.optimizer_rules import train_optimizers

def steps(make, value=2.0):  # one by a dense gradient, one by a sparse one
    ones = [tf.get_variable(name, initializer=np.full([2, 3], value, np.float32)) for name in "ab"]
    assert ones[0].dtype._is_ref_dtype
    gradients = [tf.ones([2, 3]), tf.IndexedSlices([[0.5] * 3, [0.5] * 3], [1, 1], [2, 3])]
    step = make(tf.constant(7)).apply_gradients(list(zip(gradients, ones)))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step)
        found = session.run(ones)
    tf.reset_default_graph()
    return [rows[:, 0].tolist() for rows in found]

own = train_optimizers
np.testing.assert_allclose(
    steps(lambda step: own.AdamAsyncOptimizer(0.5, epsilon=0.0)), [[1.5, 1.5], [2, 1.5]], 1e-5)
np.testing.assert_allclose(
    steps(lambda step: own.AdamWOptimizer(0.1, 0.5, epsilon=1e-7)), [[1.3, 1.3], [2, 1.3]], 1e-4)
np.testing.assert_allclose(
    steps(lambda step: own.AdagradDecayOptimizer(0.5, step, 3.0, 2, 0.5)),
    [[1.75, 1.75], [2, 1.75]], 1e-5)
print("done")
"""


def test_own_optimizers_on_reference_variables():
    assert run_python(OWN_OPTIMIZERS).split()[-1] == "done"


def test_a_script():
    assert run_python(SCRIPT).split()[-1] == "done"


MODULES = """
import importlib, pkgutil, sys
import tensorflow as tf

before = list(sys.meta_path)
import sok_compat.deeprec as face
from sok_compat.deeprec.namespace.names import HOMES, value_of

rooms = [found.name for found in pkgutil.iter_modules(face.__path__)]
rooms = [name for name in rooms if name not in ("contrib", "core", "python")]  # also of tf
modules = []
for room in rooms:
    package = importlib.import_module(f"{face.__name__}.{room}")
    found = pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    modules += [each.name for each in found if not each.name.endswith("v1_behavior")]
for name in modules:
    importlib.import_module(name)
assert tf.executing_eagerly() and sys.meta_path == before
taken = {*dir(tf.compat.v1), *dir(tf), *dir(tf.compat.v1.train), *dir(tf.compat.v1.nn)}
taken.update(HOMES)
print(len(modules), taken.intersection(rooms))
assert not face.executing_eagerly() and not tf.executing_eagerly()
assert callable(face.get_embedding_variable)
assert len(sys.meta_path) == len(before) + 1
is_there = {"estimator": hasattr(tf.compat.v1, "estimator")}
assert all(value_of(path) for path in HOMES if is_there.get(path.partition(".")[0], True))
"""


def test_rooms_of_the_face():
    """They are no names of `tf`, and to import them switches no behaviour."""
    assert run_python(MODULES).split()[1] == "set()"
