# SPDX-License-Identifier: Apache-2.0
"""A TF1 script that is launched unchanged trains as the same script on tf.compat.v1."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest

from tests.packaging.environments import REPOSITORY, write_files
from tests.support.processes.subprocess_python import QUIET

TRAIN = """
import importlib.util
import numpy as np
import tensorflow as tf
import sparse_operation_kit as sok
from network import logits_of

tf.flags.DEFINE_integer("steps", 2, "how many")
tf.flags.DEFINE_bool("check", False, "look at names, too")
tf.logging.set_verbosity(tf.logging.ERROR)

def main(rest):
    sok_init = sok.Init(global_batch_size=4, seed=2)
    keys = tf.placeholder(tf.int64, [None, 2, 1])
    with tf.device("/gpu:0"):
        logits = logits_of(sok.All2AllDenseEmbedding(100, 4, 2, 1)(keys))
        loss = tf.reduce_mean(tf.squared_difference(logits, 1.0))
    with tf.device("/device:GPU:1"):
        twice = 2 * loss
    tables, others = sok.split_embedding_variable_from_others(tf.trainable_variables())
    gradients = tf.gradients(loss, tables + others)
    with sok.OptimizerScope(tables):
        train = [tf.train.AdagradOptimizer(0.1).apply_gradients(zip(gradients, tables))]
    with tf.control_dependencies(train):
        adam = tf.train.AdamOptimizer(0.01)
        train.append(adam.apply_gradients(zip(gradients[len(tables):], others)))
    config = tf.ConfigProto(log_device_placement=False)
    config.gpu_options.allow_growth = True
    with tf.train.MonitoredTrainingSession(config=config) as session:
        session.run(sok_init)
        for _ in range(tf.flags.FLAGS.steps):
            feed = {keys: np.arange(8).reshape(4, 2, 1)}
            print("loss", *session.run([loss, twice, train], feed)[:2])
    if tf.flags.FLAGS.check:
        import checks

if __name__ == "__main__":
    tf.app.run()
"""
NETWORK = """
import tensorflow as tf
from tensorflow.layers import dense
from tensorflow.python.framework import ops

def logits_of(vectors):
    features = ops.convert_to_tensor(tf.reshape(vectors, [-1, 8]))
    hidden = dense(features, 4, tf.nn.tanh, kernel_initializer=tf.constant_initializer(0.1))
    return dense(hidden, 1, kernel_initializer=tf.constant_initializer(0.2))
"""
# Each line is true where the script's tensorflow is TensorFlow 1.
CHECKS = """
import copy, functools, pickle, sys
import numpy as np
import tensorflow
import tensorflow.python.ops.math_ops
import tensorflow as tf, os
import tensorflow.compat.v1 as tf1
import tensorflow.compat.v2 as tf2
import tensorflow.contrib.layers as contrib_layers
import tensorflow.keras.backend as K
import keras
import sparse_operation_kit.core.initialize as initialize
from sok_compat.deeprec.namespace.namespaces import RENAMED_IN_1_0
from tensorflow import keras as tf_keras, placeholder
from tensorflow.compat import v1
from tensorflow.contrib.rnn import GRUCell
from tensorflow.contrib.training import HParams
from tensorflow.keras.layers import Dense
from tensorflow.train import Saver, AdamOptimizer
import sok_compat, sok_compat.deeprec

real = sys.modules["tensorflow"]
assert tf is tensorflow is tf1 is v1 is sok_compat.deeprec and tf is not real
try:
    import horovod.tensorflow as hvd
    assert hvd.tf is real
except ImportError:  # not installed
    pass
assert keras.__version__ and not tf.executing_eagerly()
assert not hasattr(real, "placeholder") and placeholder is real.compat.v1.placeholder
assert tensorflow.python.ops.math_ops.cast is tf.cast
assert (Saver, AdamOptimizer) == (tf.train.Saver, tf.train.AdamOptimizer)
assert tf_keras.layers.Dense is Dense and K.get_session and tf2.function
assert initialize.Init is sok_compat.Init and GRUCell is tf.nn.rnn_cell.GRUCell
assert {"placeholder", "nn", "device", "staged"} < set(dir(tf))
assert tf.__version__ == real.__version__

def function():
    import tensorflow as inner, tensorflow.python.framework.ops as deep
    return inner is tf and deep.convert_to_tensor
assert function()
assert tf.app is v1.app and tf.VERSION and tf.contrib.layers is contrib_layers
assert tf.python.ops.math_ops is tensorflow.python.ops.math_ops

config = tf.ConfigProto(allow_soft_placement=True, no_such_switch=2)
options = config.graph_options.optimizer_options
options.do_op_fusion = options.do_smart_stage = True
tf.OptimizerOptions(do_op_fusion=True)
options.global_jit_level = tf.OptimizerOptions.ON_1
assert (options.do_op_fusion, config.no_such_switch) == (True, 2)
assert isinstance(config, tf.ConfigProto) and isinstance(config, real.compat.v1.ConfigProto)
assert copy.deepcopy(config) == config == pickle.loads(pickle.dumps(config))
other = tf.ConfigProto(graph_options=config.graph_options)
assert other.graph_options.optimizer_options.global_jit_level == tf.OptimizerOptions.ON_1
other.CopyFrom(config)
assert other == config and "global_jit_level: ON_1" in str(other)
if hasattr(tf, "estimator"):
    assert tf.estimator.RunConfig(session_config=config).replace(tf_random_seed=3)
try:
    config.allow_soft_placement = "yes"
    print("FOUND a bool of text")
except TypeError:
    pass

with tf.Graph().as_default(), tf.device(lambda op: "/job:localhost/gpu:1"):
    with tf.device("/cpu:0"):
        weights = tf.constant([3.0, -4.0])
    penalties = [
        contrib_layers.l1_regularizer(0.5)(weights),
        contrib_layers.l2_regularizer(0.5)(weights),
    ]
    assert [p.op.device for p in penalties] == ["/job:localhost/device:CPU:0"] * 2
    staged = tf.staged(penalties)
    with tf.train.MonitoredSession(hooks=[tf.make_prefetch_hook()]) as session:
        np.testing.assert_allclose(session.run(staged), [3.5, 6.25])
hparams = HParams(rate=0.1, dims=[1], name="a", flag=False).parse("dims=[8,4],rate=2,flag=true")
assert hparams.values() == {"rate": 2.0, "dims": [8, 4], "name": "a", "flag": True}

def value_of(path):
    return functools.reduce(getattr, path.split("."), tf)

for name in RENAMED_IN_1_0.values():
    value_of(name)
for path in PATHS:
    try:
        value_of(path)
        print("FOUND", path)
    except AttributeError as error:
        print("missing:", error)
try:
    import tensorflow.no_such
except ModuleNotFoundError as error:
    print("missing:", error)
try:
    from tensorflow.train import NoSuch
except ImportError as error:
    print("missing:", error)
"""
MISSING = {
    "no_such": r"tf\.no_such is a name of neither TensorFlow 1 \(tf\.compat\.v1 of TensorFlow "
    r"\S+\) nor DeepRec: see dir\(tf\)",
    "train.AdamOptimiser": r"tf\.train\.AdamOptimiser .* nor DeepRec; there is "
    r"tf\.train\.AdamOptimizer",
    "sub": r"tf\.sub is .* nor DeepRec: since TensorFlow 1\.0 it is tf\.subtract",
    "train.SummaryWriter": r"tf\.train\.SummaryWriter .*: .* it is tf\.summary\.FileWriter",
    "optimizers": r"tf\.optimizers .*; TensorFlow 2 has it: tf\.compat\.v2\.optimizers",
    "get_hash_table": r"sok_compat does not have tf\.get_hash_table of DeepRec, a hash table, .*: "
    r"use tf\.get_embedding_variable",
    "contrib.slim.fully_connected": r"TensorFlow 2 has no tf\.contrib, so no "
    r"tf\.contrib\.slim: use tf\.contrib\.layers, .*",
    "contrib.no_such": r".* tf\.contrib\.no_such: sok_compat has its data, feature_column, "
    r"framework, layers, lookup, rnn, training only",
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """(what the launched script printed, its warnings, what the plain one printed)."""
    unbuilt = "raise ImportError('not built')\n"
    files = {"train.py": TRAIN, "network.py": NETWORK, "sparse_operation_kit/__init__.py": unbuilt}
    checkout = tmp_path_factory.mktemp("checkout")
    checks = CHECKS.replace("PATHS", repr(tuple(MISSING)))
    write_files(checkout, {**files, "checks.py": checks})
    plain = tmp_path_factory.mktemp("plain")
    write_files(plain, {name: _on_compat_v1(text) for name, text in files.items()})
    launched = _run("-m", "sok_compat.run", str(checkout / "train.py"), "--check", cwd=plain)
    keras_2 = {"TF_USE_LEGACY_KERAS": "1"} if importlib.util.find_spec("tf_keras") else {}
    return launched[0], launched[1], _run("train.py", cwd=plain, environment=keras_2)[0]


def _on_compat_v1(script):
    switch = "import tensorflow.compat.v1 as tf; tf.disable_v2_behavior()"
    script = script.replace("import tensorflow as tf", switch)
    script = script.replace("from tensorflow.layers import dense", "dense = tf.layers.dense")
    script = script.replace("import sparse_operation_kit", "import sok_compat")
    return re.sub("/(device:)?(gpu|GPU):.", "/cpu:0", script)


def _run(*arguments, cwd, environment=None):
    """(lines printed, what went to stderr)."""
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **QUIET, "PYTHONPATH": path, **(environment or {})},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def test_losses_are_those_of_plain_tensorflow(runs):
    launched, _, plain = runs
    losses = [line for line in launched if line.startswith("loss")]
    assert len(losses) == 2 and losses == plain


def test_missing_names_say_what_to_do(runs):
    messages = [line.removeprefix("missing: ") for line in runs[0] if line.startswith("missing: ")]
    assert not [line for line in runs[0] if line.startswith("FOUND")]
    for pattern, message in zip(MISSING.values(), messages):
        assert re.fullmatch(pattern, message)
    assert len(messages) == len(MISSING) + 2


def test_each_warning_comes_once(runs):
    """Of the GPU that is not there, and of each switch that TensorFlow 2 does not have."""
    switches = ("no_such_switch", "do_op_fusion", "do_smart_stage")
    for what in ("TensorFlow has no GPU here", *(f"{name} is ignored" for name in switches)):
        assert runs[1].count(what) == 1, runs[1]
    assert "disable_resource_variables" not in runs[1]


WITHOUT_A_TABLE = """
x = tf.get_variable("x", [3])
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
"""
WITH_A_TABLE = """
x = tf.nn.embedding_lookup(tf.get_embedding_variable("x", embedding_dim=2), tf.constant([1, 3]))
train = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(x))
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(train)
"""


@pytest.mark.parametrize(
    ("script", "most"),
    [(WITHOUT_A_TABLE, 30), (WITH_A_TABLE, 200)],
    ids=["no table", "a table"],
)
def test_only_modules_that_a_script_uses_are_imported(script, most, tmp_path):
    """Names of `tf` are found without an import of the modules that define them."""
    show = "print(*(name for name in sys.modules if name.startswith('sok_compat.')))\n"
    (tmp_path / "train.py").write_text(f"import sys\nimport tensorflow as tf\n{script}{show}")
    modules = _run("-m", "sok_compat.run", "train.py", cwd=tmp_path)[0][-1].split()
    assert 10 < len(modules) <= most
    assert not any(name.startswith("sok_compat.serving") for name in modules)
