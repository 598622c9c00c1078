# SPDX-License-Identifier: Apache-2.0
"""What takes the place of a dump or checkpoint is on the disk before: power may go at any time."""

import dataclasses
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.processes.subprocess_python import run_python

LOGGED_SYNCS = Path(__file__).parents[2] / "support" / "saves" / "logged_syncs.cc"

# Each saves twice to the same place: the later one replaces files.
SCRIPTS = {
    "sok.Saver": (
        """
        import tensorflow as tf
        import sparse_operation_kit as sok

        sok.Init(global_batch_size=2)
        layer = sok.All2AllDenseEmbedding(4, 8, slot_num=1, nnz_per_slot=1)
        for first in (1, 5):
            layer(tf.constant([[first], [first + 1]], tf.int64))
            sok.Saver().dump_to_file(layer.embedding_variable, r"{folder}")
        """,
        ["EmbeddingVariable_keys.file", "EmbeddingVariable_values.file", "EmbeddingVariable.dump"],
    ),
    "import of arrays": (
        """
        import numpy as np
        from sok_compat.checkpoint.tool.command_line import main

        arrays = r"{folder}/k.npy", r"{folder}/r.npy"
        np.save(arrays[0], np.arange(5))
        np.save(arrays[1], np.ones([5, 4], np.float32))
        for _ in range(2):
            main(["import", r"{folder}", "--table", "t", "--from", *arrays])
        """,
        ["t_keys.file", "t_values.file", "t.dump"],
    ),
    "tf.train.Saver": (
        """
        import tensorflow as tf
        from sok_compat.checkpoint import assign_rows, save_tables_in_checkpoints
        from sok_compat.tables import Table

        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            table = Table(None, 4, name="table")
            save_tables_in_checkpoints()
            saver = tf.compat.v1.train.Saver()
            session.run(tf.compat.v1.global_variables_initializer())
            session.run(assign_rows(table, [3, 8], [[1.0] * 4] * 2))
            for _ in range(2):
                saver.save(session, r"{folder}/model", write_meta_graph=False)
        """,
        ["model.data-00000-of-00002", "model.index"],
    ),
}


@dataclasses.dataclass
class Event:
    """A file was synced, or renamed to `place`, when it had `num_bytes`."""

    what: str
    path: str
    place: str
    num_bytes: int

    @classmethod
    def of(cls, line):
        what, path, place, num_bytes = line.split("\t")
        return cls(what, os.path.realpath(path), place and os.path.realpath(place), int(num_bytes))


@pytest.fixture(scope="module")
def logger(tmp_path_factory):
    """The library that logs syncs and renames, to be preloaded."""
    library = tmp_path_factory.mktemp("logger") / "logged_syncs.so"
    compiler = os.environ.get("CXX", "c++")
    subprocess.run(
        [compiler, "-std=c++17", "-shared", "-fPIC", LOGGED_SYNCS, "-o", library, "-ldl"],
        check=True,
    )
    return library


@pytest.fixture(params=SCRIPTS)
def events_and_files(request, logger, tmp_path, monkeypatch):
    """(events of a script that saves twice, its files, of which the last one names the others)"""
    script, names = SCRIPTS[request.param]
    folder, log = tmp_path / "saved", tmp_path / "log"
    folder.mkdir()
    monkeypatch.setenv("LD_PRELOAD", str(logger))
    monkeypatch.setenv("SOK_TEST_SYNCS", str(log))
    run_python(script.format(folder=folder), is_fresh=True)
    files = [os.path.realpath(folder / name) for name in names]
    events = [Event.of(line) for line in log.read_text().splitlines()]
    return [each for each in events if each.what == "sync" or each.place in files], files


@pytest.mark.thorough
def test_files_are_on_the_disk_before_they_replace_others(events_and_files):
    events, files = events_and_files
    synced, renamed = {}, []
    for event in events:
        if event.what == "sync":
            synced[event.path] = event.num_bytes
        else:
            assert synced[event.path] == event.num_bytes > 0
            renamed.append(event.place)
    assert all(renamed.count(place) >= 1 for place in files), renamed
    assert renamed.count(files[-1]) == 2


def test_a_folder_is_on_the_disk_before_and_after_the_file_that_counts(events_and_files):
    """What it names can be found when it is found; and it is found once the save has ended."""
    events, files = events_and_files
    folder = os.path.dirname(files[0])
    are_folders = [each.path == folder for each in events]
    switches = [i for i, each in enumerate(events) if each.place == files[-1]]
    for i in switches:
        assert are_folders[i - 1] and are_folders[i + 1]
    assert are_folders[-1]
