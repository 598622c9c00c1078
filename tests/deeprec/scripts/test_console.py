# SPDX-License-Identifier: Apache-2.0
"""The console of a launched script shows what the script prints, and hardly anything else."""

import logging
import os
import re
import subprocess
import sys
import warnings

import pytest

from sok_compat.run import console
from tests.distributed.launch import has_horovod, why_no_mpi

# What newer TensorFlows write before Python can set a level.
LOG_OF_LIBRARIES = re.compile(
    r"[IW]0000 00:00:|WARNING: All log messages before|To enable the foll"
)
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


SCRIPT_OF_RANKS = """
import numpy as np
import tensorflow as tf
from tensorflow.python.distribute.group_embedding_collective_strategy import CollectiveStrategy

tf.logging.set_verbosity(tf.logging.INFO)
strategy = CollectiveStrategy()
ids = tf.placeholder(tf.int64, [None, 3])
with strategy.scope(), strategy.embedding_scope():
    tables = [tf.get_embedding_variable(f"table_{i}", 4) for i in range(3)]
rows = [tf.nn.embedding_lookup(table, ids[:, i]) for i, table in enumerate(tables)]
with strategy.scope():
    loss = tf.reduce_mean(tf.layers.dense(tf.concat(rows, 1), 1) ** 2)
    step = tf.train.get_or_create_global_step()
    train = tf.train.AdagradOptimizer(0.1).minimize(loss, global_step=step)
    hooks = [tf.train.StopAtStepHook(3), tf.train.LoggingTensorHook({"my loss": loss}, 1)]
    with tf.train.MonitoredTrainingSession(checkpoint_dir="model", hooks=hooks) as session:
        while not session.should_stop():
            session.run(train, {ids: np.arange(12).reshape(4, 3)})
tf.logging.info("of the script")
"""


@pytest.mark.parametrize("by", ["one rank", "horovod", "mpi"])
def test_lines_on_the_console_of_ranks(tmp_path, by):
    if by == "horovod" and not has_horovod():
        pytest.skip("Horovod is not installed: run `make horovod`")
    if by == "mpi" and why_no_mpi() is not None:
        pytest.skip(why_no_mpi())
    (tmp_path / "script.py").write_text(SCRIPT_OF_RANKS)
    options = {"one rank": ["-np", "1"], "horovod": ["-np", "2"], "mpi": ["--mpi", "-np", "2"]}[by]
    hidden = {"TF_CPP_MIN_LOG_LEVEL", "PYTHONWARNINGS"}
    done = subprocess.run(
        [sys.executable, "-m", "sok_compat.run.launch", *options, "script.py"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name not in hidden},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    lines = [line.split(">:")[-1] for line in done.stdout.splitlines()]  # without Horovod's ranks
    lines = [line for line in lines if not LOG_OF_LIBRARIES.match(line)]
    num_ranks = 1 if by == "one rank" else 2
    assert lines.count("INFO:tensorflow:of the script") == num_ranks
    others = [line for line in lines if "of the script" not in line and "my loss" not in line]
    assert len([line for line in lines if "my loss" in line]) == 3 * num_ranks
    assert len(others) <= 10 and len(others) == len(set(others)), others


def test_undone(monkeypatch):
    monkeypatch.setattr(sys, "warnoptions", [])
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")
    logger, filters = logging.getLogger("tensorflow"), [*warnings.filters]
    console.hide_deprecations()
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "2"
    assert len(logger.filters) == 1 and [*warnings.filters] != filters
    console.show_deprecations()
    assert not logger.filters and [*warnings.filters] == filters
