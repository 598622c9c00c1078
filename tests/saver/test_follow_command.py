# SPDX-License-Identifier: Apache-2.0
"""python -m sok_compat.serving.follow: versions of stock ops in numbered folders."""

import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.serving import follow
from sok_compat.serving.versions import latest_version
from tests.support.saves.followed_model import NUM_KEYS, TABLES, Trainer, build, key_of

tf1 = tf.compat.v1


@pytest.fixture
def trainer(graph, tmp_path, monkeypatch):
    """save(number) trains and saves a version, of which 3 and 6 are whole; returns its path."""
    monkeypatch.chdir(tmp_path)
    made = Trainer()
    with tf1.Session() as session:
        session.run(made.init)

        def save(number):
            made.make(session, number)
            with made.dense.graph.as_default():
                return made.save(session, f"{tmp_path}/trained", number, is_whole=number % 3 == 0)

        yield save
    assert not os.path.exists("model.index")  # nothing is saved once more, by a default name


def number_in(version):
    """The number that an exported version serves, everywhere."""
    keys = [0, NUM_KEYS - 1, *(key_of(number) for number in range(8))]
    with tf.Graph().as_default(), tf1.Session() as session:
        loaded = tf1.saved_model.load(session, ["serve"], version)
        signature = loaded.signature_def["serving_default"]
        names = {name: info.name for name, info in signature.outputs.items()}
        outputs = session.run(names, {signature.inputs["keys"].name: keys})
    (number,) = set(outputs["dense"].tolist())
    for name in TABLES:
        assert np.all(outputs[name][:2] == number)
        assert [n for n in range(8) if np.any(outputs[name][2 + n])] == [number]
    return number


def test_versions_of_increments(trainer, tmp_path):
    """Complete, numbered, and but for the last two deleted."""
    folder, exports = f"{tmp_path}/trained", f"{tmp_path}/exported"
    options = {"keep": 2, "missing_keys": "zeros"}
    assert follow.export_latest(build, folder, exports, **options) is None
    for number in range(1, 5):
        trainer(number)
        with tf.Graph().as_default():
            path = follow.export_latest(build, folder, exports, **options)
        assert path == f"{exports}/{number}"
        assert number_in(path) == number
        assert follow.export_latest(build, folder, exports, **options) is None  # nothing new
    assert sorted(os.listdir(exports)) == ["3", "4"]


@pytest.mark.parametrize("keep", [2, 4, 7])
def test_the_last_versions_stay(trainer, tmp_path, keep):
    exports = tmp_path / "exported"
    for number in range(1, 6):
        (exports / str(number)).mkdir(parents=True)
    (exports / "²").mkdir()  # no number of a version
    trainer(1)
    follow.export_latest(
        build, f"{tmp_path}/trained", str(exports), keep=keep, missing_keys="zeros"
    )
    assert sorted(os.listdir(exports)) == [*["1", "2", "3", "4", "5", "6"][-keep:], "²"]


def test_a_damaged_checkpoint_writes_none(trainer, tmp_path):
    folder, exports = f"{tmp_path}/trained", f"{tmp_path}/exported"
    paths = [trainer(number) for number in (1, 2)]
    os.truncate(f"{paths[0]}.data-00000-of-00001", 100)
    with pytest.raises((FileError, tf.errors.OpError), match="model-1.data"):
        follow.export_latest(build, folder, exports)
    assert os.listdir(exports) == []


def test_a_checkpoint_that_is_deleted_meanwhile(trainer, tmp_path):
    folder, exports = f"{tmp_path}/trained", f"{tmp_path}/exported"
    path = trainer(1)

    def build_and_delete():
        os.unlink(f"{path}.index")
        return build()

    with pytest.raises(FileError, match="model-1 is not there any more"):
        follow.export_latest(build_and_delete, folder, exports, missing_keys="zeros")
    assert os.listdir(exports) == []


def test_a_version_that_cannot_be_deleted(trainer, tmp_path, monkeypatch, capsys):
    """Is hidden from servers, the new one is there, and the next call deletes it."""
    folder, exports = f"{tmp_path}/trained", f"{tmp_path}/exported"
    for number in (1, 2):
        os.makedirs(f"{exports}/{number}")

    remove = shutil.rmtree

    def fail(path, **options):
        if path.endswith(".deleted"):
            raise PermissionError(13, "Permission denied", path)
        remove(path, **options)

    trainer(1)
    with monkeypatch.context() as patches:
        patches.setattr(follow.shutil, "rmtree", fail)
        path = follow.export_latest(build, folder, exports, keep=2, missing_keys="zeros")
    assert path == f"{exports}/3"
    assert ".1.deleted is not deleted: " in capsys.readouterr().err
    assert sorted(os.listdir(exports)) == [".1.deleted", "2", "3"]
    assert follow.export_latest(build, folder, exports, missing_keys="zeros") is None
    assert sorted(os.listdir(exports)) == ["2", "3"]


def test_the_command(trainer, tmp_path, capsys):
    folder, exports = f"{tmp_path}/trained", f"{tmp_path}/exported"
    trainer(1)
    command = [folder, exports, "--model", "tests.support.saves.followed_model:build"]
    command += ["--missing-keys", "zeros"]
    assert follow.main(command) == 0
    assert capsys.readouterr().out == f"{exports}/1: model-1\n"
    assert number_in(f"{exports}/1") == 1
    os.truncate(f"{trainer(2)}.index", 50)
    assert follow.main(command) == 2
    assert "no version is written: " in capsys.readouterr().err
    assert os.listdir(exports) == ["1"]


@pytest.mark.parametrize(
    "wrong, message",
    [
        (["--model", "tests.nothing:build"], "'tests.nothing:build' is not MODULE:FUNCTION"),
        (["--model", "os:sep"], "'os:sep' is no function"),
        (["--model", "os:getcwd", "--keep", "0"], "must be at least 2, got '0'"),
    ],
)
def test_arguments(wrong, message, capsys):
    with pytest.raises(SystemExit):
        follow.main(["trained", "exported", *wrong])
    assert message in capsys.readouterr().err


def test_a_copied_folder(trainer, tmp_path):
    """Its `checkpoint` names the trainer's path; its own files count, if they are there."""
    trained, copied, exports = (f"{tmp_path}/{name}" for name in ("trained", "copied", "exported"))
    trainer(1)
    with open(f"{trained}/checkpoint", "w") as file:
        file.write(f'model_checkpoint_path: "{trained}/model-1"\n')
    shutil.copytree(trained, copied)
    trainer(2)
    assert latest_version(copied).prefix == f"{copied}/model-1"
    shutil.rmtree(trained)
    path = follow.export_latest(build, copied, exports, missing_keys="zeros")
    assert number_in(path) == 1
