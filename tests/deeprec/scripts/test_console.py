# SPDX-License-Identifier: Apache-2.0
"""The console of a launched script shows what the script prints, and hardly anything else."""

import logging
import os
import subprocess
import sys
import warnings

import pytest

from sok_compat.run import console

SCRIPT = """
import pyarrow
import pyarrow.parquet
import tensorflow as tf
from tensorflow.python.data.experimental.ops.parquet_dataset_ops import ParquetDataset

tf.logging.set_verbosity(tf.logging.INFO)
batch = tf.staged(tf.data.Dataset.from_tensors([[1.0, 2.0]]).make_one_shot_iterator().get_next())
ids = tf.cast(batch[0], tf.int64)
pyarrow.parquet.write_table(pyarrow.table({"names": ["a", "b"]}), "names.parquet")
names = ParquetDataset("names.parquet", 2).make_one_shot_iterator().get_next()["names"]
rows = tf.nn.embedding_lookup(tf.get_embedding_variable("rows", 3), ids)
hidden = tf.layers.batch_normalization(tf.layers.dense(rows, 2))
_, area = tf.metrics.auc([True, False], tf.sigmoid(hidden[:, 0]))
config = tf.ConfigProto()
config.graph_options.optimizer_options.do_smart_stage = True
with tf.train.MonitoredTrainingSession(config=config, hooks=[tf.make_prefetch_hook()]) as session:
    session.run([area, names])
tf.logging.warning("of the script")
"""


@pytest.mark.parametrize("shows", [False, True])
def test_lines_on_the_console(tmp_path, shows):
    pytest.importorskip("pyarrow")
    (tmp_path / "script.py").write_text(SCRIPT)
    options = ["-W", "default"] if shows else []
    hidden = {"TF_CPP_MIN_LOG_LEVEL", "PYTHONWARNINGS"}
    done = subprocess.run(
        [sys.executable, *options, "-m", "sok_compat.run", "script.py"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name not in hidden},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in done.stderr.splitlines() if not line.startswith("INFO:tensorflow:")]
    assert "WARNING:tensorflow:of the script" in lines
    assert ("is deprecated and will be removed" in done.stderr) == shows
    assert f"sok_compat{os.sep}deeprec" not in done.stderr  # none is of our own calls
    assert (len(lines) <= 10) != shows, lines
    assert not any("AutoGraph" in line for line in lines)


def test_undone(monkeypatch):
    monkeypatch.setattr(sys, "warnoptions", [])
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")
    logger, filters = logging.getLogger("tensorflow"), [*warnings.filters]
    console.hide_deprecations()
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "2"
    assert len(logger.filters) == 1 and [*warnings.filters] != filters
    console.show_deprecations()
    assert not logger.filters and [*warnings.filters] == filters
