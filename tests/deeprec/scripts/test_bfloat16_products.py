# SPDX-License-Identifier: Apache-2.0
"""--bfloat16: TensorFlow's rewriter has products of matrices computed in bfloat16."""

import os
import subprocess
import sys

import pytest

from sok_compat.run import bfloat16_products
from tests.support.processes.subprocess_python import QUIET

SCRIPT = """
import sys
import numpy as np
import tensorflow as tf

x = tf.placeholder(tf.float32, [512, 256])
w = tf.get_variable("w", [256, 128], initializer=tf.ones_initializer())
loss = tf.reduce_mean(tf.square(tf.nn.relu(tf.matmul(x, w)) - 1))
train = tf.train.GradientDescentOptimizer(1e-6).minimize(loss)
config = {
    "none": None,
    "own": tf.ConfigProto(allow_soft_placement=True),
    "off": tf.ConfigProto(),
}[sys.argv[1]]
if sys.argv[1] == "off":
    config.graph_options.rewrite_options.auto_mixed_precision_onednn_bfloat16 = 2
options, ran = tf.RunOptions(output_partition_graphs=True), tf.RunMetadata()
with tf.Session(config=config) as session:
    session.run(tf.global_variables_initializer())
    feed = {x: np.random.RandomState(1).rand(512, 256).astype(np.float32)}
    losses = [session.run([loss, train], feed, options, ran)[0] for _ in range(3)]
    assert session.run(w).dtype == np.float32
products = [node.attr["T"].type for graph in ran.partition_graphs for node in graph.node
            if "MatMul" in node.op]
try:
    import pkg_resources  # ended with setuptools 81
except ImportError:
    pass
else:
    assert "deeprec" in pkg_resources.get_distribution("tensorflow").version
print("losses", *losses)
print("bfloat16", sum(dtype == tf.bfloat16.as_datatype_enum for dtype in products), len(products))
"""


def launched(tmp_path, *arguments, **environment):
    """(products in bfloat16, products, losses, standard error) of a launched script."""
    (tmp_path / "train.py").write_text(SCRIPT)
    script = ["-m", "sok_compat.run", *arguments[:-1], str(tmp_path / "train.py"), arguments[-1]]
    done = subprocess.run(
        [sys.executable, *script],
        env={**os.environ, **QUIET, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    losses, products = (line.split()[1:] for line in done.stdout.splitlines()[-2:])
    return *map(int, products), [float(loss) for loss in losses], done.stderr


@pytest.mark.skipif(
    not bfloat16_products.can_multiply_in_bfloat16(), reason="the processor has no bfloat16"
)
def test_products_of_each_session_unless_it_says_no(tmp_path):
    in_float32, products, expected, _ = launched(tmp_path, "none")
    assert (in_float32, products) == (0, 2)
    for config in ("none", "own"):
        in_bfloat16, products, losses, output = launched(tmp_path, "--bfloat16", config)
        assert in_bfloat16 == products == 2
        assert losses == pytest.approx(expected, rel=1e-2) and losses != expected
        assert output.count("products of matrices are computed in bfloat16") == 1
    assert launched(tmp_path, "off", SOK_BFLOAT16_PRODUCTS="1")[:3] == (0, 2, expected)


@pytest.mark.parametrize(
    "flags, limit, can",
    [
        ("fma avx512f avx512_bf16", "", True),
        ("fma avx512f avx512_bf16", "AVX512_CORE_AMX", True),
        ("fma avx512f avx512_bf16", "avx2", False),  # TensorFlow aborted
        ("fma avx512f", "", False),
    ],
)
def test_processors_without_it_are_refused(tmp_path, monkeypatch, capsys, flags, limit, can):
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    processor = tmp_path / "cpuinfo"
    processor.write_text(f"processor\t: 0\nflags\t\t: {flags}\nbugs\t\t: bf16\n")
    monkeypatch.setattr(bfloat16_products, "_PROCESSOR", processor)
    assert bfloat16_products.can_multiply_in_bfloat16() == can
    if not can:
        with pytest.raises(SystemExit) as left:
            bfloat16_products.multiply_in_bfloat16()
        assert left.value.code == 2
        assert "Run without it" in capsys.readouterr().err
