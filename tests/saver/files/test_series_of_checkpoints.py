# SPDX-License-Identifier: Apache-2.0
"""Increments in sessions, and of processes that are killed."""

import os
import subprocess
import sys

import pytest
import tensorflow as tf

from tests.support.cases.optimizer_cases import ALL_OPTIMIZERS
from tests.support.saves.killed_increments import NumberedSeries
from tests.support.saves.saved_table import SavedTable
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
ADAGRAD = next(case for case in ALL_OPTIMIZERS if case.name == "tf1.Adagrad")


def changed_keys(path):
    """Those that an increment holds, sorted; none of a whole checkpoint."""
    reader = tf.train.load_checkpoint(path)
    names = [n for n in reader.get_variable_to_shape_map() if n.endswith("/keys.increment")]
    return sorted(key for name in names for key in reader.get_tensor(name).tolist())


def test_sessions_save_increments_between_whole_checkpoints(sok, tmp_path):
    folder = str(tmp_path)

    def train(until):
        with tf.Graph().as_default():
            sok.Init(global_batch_size=8, seed=7)
            step = tf1.train.get_or_create_global_step()
            table = SavedTable("unused", optimizer=ADAGRAD)
            with tf.control_dependencies([table.step]):
                train_op = step.assign_add(1)
            saver = sok.IncrementalSaver()
            with tf1.train.MonitoredTrainingSession(
                checkpoint_dir=folder,
                scaffold=tf1.train.Scaffold(saver=saver),
                save_checkpoint_steps=6,
                save_summaries_steps=None,
                hooks=[sok.IncrementalSaverHook(saver, folder, save_steps=2)],
            ) as session:
                while session.run(step) < until:
                    session.run(train_op, {table.keys: [session.run(step) % 11]})
                rows = table.rows(session)
                latest = tf.train.latest_checkpoint(folder)
            return latest, changed_keys(latest), rows

    latest, keys, _ = train(5)
    assert (os.path.basename(latest), keys) == ("model.ckpt-4", [2, 3])
    latest, keys, rows = train(10)
    assert (os.path.basename(latest), keys) == ("model.ckpt-9", [7, 8])
    assert train(10)[2].keys() == rows.keys() == set(range(10))


@pytest.mark.thorough
@pytest.mark.parametrize("times", [3, pytest.param(15, marks=pytest.mark.thorough)])
def test_processes_that_are_killed_while_they_save(graph, tmp_path, times):
    """At any moment: the newest checkpoint, whole or not, is restored as it was saved."""
    numbered = NumberedSeries()
    with (
        initialized_session() as session,
        subprocess.Popen(
            [sys.executable, "-m", "tests.support.saves.killed_increments", tmp_path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        try:
            for _ in range(times):
                process.stdin.write("next\n")
                process.stdin.flush()
                assert process.stdout.readline() == "killed\n"
                path = tf.train.latest_checkpoint(str(tmp_path))
                number = int(path.rpartition("-")[2])
                assert numbered.restored(session, path) == {number}
        finally:
            process.kill()
