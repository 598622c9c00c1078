# SPDX-License-Identifier: Apache-2.0
"""sok_compat.serving.Follower: swaps that fail, interrupts, a folder that cannot be read, and
callbacks that call back."""

import glob
import os
import threading
import time

import pytest
import tensorflow as tf

from sok_compat.checkpoint import IncrementalSaver, save_tables_in_checkpoints
from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.serving import Follower, export_saved_model, follower
from sok_compat.serving.request_gate import RequestGate
from sok_compat.serving.saved_model import FIRST_VALUES
from sok_compat.serving.served_model import ServedModel
from sok_compat.serving.versions import Version
from sok_compat.tables import Table
from tests.support.saves.followed_model import NUM_KEYS, TABLES, build, training

tf1 = tf.compat.v1
SECONDS = 60
NUMBERS = range(1, 7)


@pytest.fixture
def folder(tmp_path):
    """With the versions of NUMBERS: whole ones 1 and 5, else increments."""
    path = str(tmp_path / "followed")
    with training() as (trainer, session):
        trainer.write(session, path, NUMBERS, wholes=[5])
    return path


def point(folder, number, listed=()):
    """Makes a version the folder's latest; `listed`: the numbers of those that it lists."""
    with open(f"{folder}/checkpoint.new", "w") as file:
        file.write(f'model_checkpoint_path: "model-{number}"\n')
        for each in listed:
            file.write(f'all_model_checkpoint_paths: "model-{each}"\n')
    os.rename(f"{folder}/checkpoint.new", f"{folder}/checkpoint")


def following(folder, number, **options):
    """A Follower that serves a version."""
    point(folder, number)
    made = Follower(build, folder, poll_seconds=0.02, **options)
    made.wait(timeout=SECONDS)
    return made


def numbers_seen(follower):
    """All numbers that one request sees."""
    outputs = follower.run({"keys": range(NUM_KEYS)})
    return {float(each) for name in (*TABLES, "dense") for each in outputs[name].ravel()}


def await_that(is_so):
    end = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


class FailingSwap:
    """A swap that fails once it has written: before it, `before` is called."""

    def __init__(self, made, error, before=lambda: None):
        model = made._model
        self.count, session, run = 0, model._session, model._session.run

        def failing(fetches, *given, **options):
            if fetches is not model._swap:
                return run(fetches, *given, **options)
            self.count += 1
            before()
            run(fetches, *given, **options)
            raise error

        session.run, self.end = failing, lambda: setattr(session, "run", run)


ERRORS = [tf.errors.ResourceExhaustedError(None, None, "no memory"), MemoryError("no memory")]


@pytest.mark.parametrize("error", ERRORS, ids=["op", "Python"])
@pytest.mark.parametrize("is_exported", [False, True])
def test_no_request_sees_a_failed_swap(folder, tmp_path, error, is_exported):
    model, seen, done = build, set(), threading.Event()
    if is_exported:
        model = export_saved_model(tmp_path / "exported", build, f"{folder}/model-2")
        os.unlink(f"{folder}/checkpoint")
    else:
        point(folder, 2)

    def ask():
        while not done.is_set():
            seen.update(numbers_seen(made))

    with Follower(model, folder, poll_seconds=0.02) as made:
        if not is_exported:
            made.wait("model-2", SECONDS)
        swap = FailingSwap(made, error)
        thread = threading.Thread(target=ask)
        thread.start()
        point(folder, 3)
        await_that(lambda: "no memory" in made.problem())
        done.set()
        thread.join()
        assert seen == numbers_seen(made) == {2.0}
        swap.end()
        made.wait("model-3", SECONDS)  # tried again, while the folder is quiet
        assert numbers_seen(made) == {3.0} and made.problem() == ""


def test_nothing_is_served_if_the_version_before_is_gone(folder):
    def hide():
        for file in glob.glob(f"{folder}/model-*"):
            os.rename(file, f"{file}.hidden")

    with following(folder, 2) as made:
        swap = FailingSwap(made, ERRORS[0], hide)
        point(folder, 3)
        await_that(lambda: made.problem() == "no memory")
        with pytest.raises(RuntimeError, match="has failed, and the one before is gone: no memory"):
            made.run({"keys": [1]})
        assert made.version() is None
        with pytest.raises(TimeoutError):
            made.wait(timeout=0)
        swap.end()
        for file in glob.glob(f"{folder}/model-*"):
            os.rename(file, file.removesuffix(".hidden"))
        assert made.wait(timeout=SECONDS) == "model-3"
        assert numbers_seen(made) == {3.0}


def test_a_swap_that_fails_is_not_tried_at_each_look(folder):
    """Though the folder changes all the time."""
    with following(folder, 1) as made:
        swap, began = FailingSwap(made, ERRORS[0]), time.monotonic()
        point(folder, 2)
        await_that(lambda: made.problem() == "no memory")
        for _ in range(20):
            point(folder, 2)
            time.sleep(0.03)
        assert swap.count <= 1 + time.monotonic() - began  # tried again a second later
        assert numbers_seen(made) == {1.0}
        await_that(lambda: swap.count >= 2)


@pytest.mark.parametrize("is_written", [False, True])
def test_an_interrupted_rollback(folder, is_written):
    """It comes to nothing, and what follows is right."""
    with following(folder, 3) as made:
        swap = made._model.swap

        def interrupted(changes):
            if is_written:
                swap(changes)
            raise KeyboardInterrupt

        made._model.swap = interrupted
        with pytest.raises(KeyboardInterrupt):
            made.rollback("model-1")
        made._model.swap = swap
        await_that(lambda: numbers_seen(made) == {3.0})
        point(folder, 4)
        made.wait("model-4", SECONDS)
        assert numbers_seen(made) == {4.0}


def test_a_swap_that_is_interrupted(folder):
    with following(folder, 3) as made:
        swap = FailingSwap(made, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            made.rollback("model-1")
        swap.end()
        assert numbers_seen(made) == {3.0} and made.version() == "model-3"


def test_rollback_of_damaged_data(folder):
    with following(folder, 3) as made:
        with open(f"{folder}/model-2.data-00000-of-00001", "r+b") as file:
            file.seek(-20, os.SEEK_END)
            file.write(b"damaged")
        with pytest.raises(FileError, match="model-2.data-00000-of-00001"):
            made.rollback("model-2")
        assert numbers_seen(made) == {3.0}


def test_a_folder_that_cannot_be_read(folder, monkeypatch):
    def fail(path):
        raise OSError(5, "Input/output error", path)

    with following(folder, 2) as made:
        os.symlink("loop.index", f"{folder}/loop.index")
        with monkeypatch.context() as patch:
            patch.setattr(follower, "state_of_folder", fail)
            await_that(lambda: "Input/output error" in made.problem())
        point(folder, 3)
        made.wait("model-3", SECONDS)
        os.rename(folder, f"{folder}-away")
        await_that(lambda: "checkpoint is missing" in made.problem())
        assert numbers_seen(made) == {3.0}
        os.rename(f"{folder}-away", folder)
        await_that(lambda: made.problem() == "")


def test_lag_where_the_clock_of_the_trainer_is_ahead(folder):
    with following(folder, 1) as made:
        os.unlink(f"{folder}/model-2.index")
        ahead = time.time() + 3600
        os.utime(f"{folder}/model-3.index", (ahead, ahead))
        point(folder, 3)
        await_that(lambda: made.lag_seconds() > 0)
        assert made.lag_seconds() < SECONDS


def test_an_error_of_reading_that_passes(folder):
    with following(folder, 2) as made:
        read = made._model.read

        def fail(version):
            made._model.read = read
            raise OSError(5, "Input/output error")

        made._model.read = fail
        point(folder, 3)
        assert made.wait("model-3", SECONDS) == "model-3"  # though the folder is quiet


def test_callbacks_may_call_the_follower(folder):
    """After a rollback, the later links are not served."""
    told, calls = [], {}

    def call(name):
        told.append(name)
        calls.pop(name, lambda: None)()

    made = following(folder, 1, on_version=call)
    calls.update({"model-2": lambda: made.rollback("model-1"), "model-4": made.close})
    point(folder, 4)
    await_that(lambda: told == ["model-1", "model-2", "model-1"])
    assert made.version() == "model-1"
    made.resume()
    made._thread.join(SECONDS)
    assert told[3:] == ["model-2", "model-3", "model-4"]
    with pytest.raises(RuntimeError, match="closed"):
        made.run({"keys": [1]})


def test_waits_for_versions_that_are_skipped(folder):
    with following(folder, 3) as made:
        point(folder, 6)
        assert made.wait("model-6", SECONDS) == "model-6"
        for number in NUMBERS:
            assert made.wait(f"model-{number}", 0) == "model-6"
        made.rollback("model-4")
        assert made.wait("model-3", 0) == "model-4"
        with pytest.raises(TimeoutError):
            made.wait("model-5", 0)
        made.rollback("model-6")
        assert made.lag_seconds() == 0
        made.rollback("model-1")
        with pytest.raises(TimeoutError):
            made.wait("model-2", 0)
        assert made.lag_seconds() > 0


def test_waits_for_skipped_versions_of_copied_files(folder):
    """Their times say nothing; the file `checkpoint` has their order."""
    for number in NUMBERS:
        os.utime(f"{folder}/model-{number}.index", (10.0 - number, 10.0 - number))
    with following(folder, 3) as made:
        made.rollback("model-1")
        point(folder, 6, NUMBERS)
        made.resume()
        assert made.wait("model-6", SECONDS) == "model-6"
        for number in NUMBERS:
            assert made.wait(f"model-{number}", 0) == "model-6"
        made.rollback("model-2")
        with pytest.raises(TimeoutError):
            made.wait("model-4", 0)
    point(folder, 6, NUMBERS)
    with Follower(build, folder, poll_seconds=0.02) as made:
        assert made.wait("model-4", SECONDS) == "model-6"


def test_a_closed_follower(folder):
    made = following(folder, 3)
    made.close()
    for call in (lambda: made.rollback("model-1"), made.resume, lambda: made.run({"keys": [1]})):
        with pytest.raises(RuntimeError, match="the Follower is closed"):
            call()
    made.close()


class Interrupted(dict):
    """Of the requests of a gate: an interrupt comes once one has entered itself."""

    def __setitem__(self, token, value):
        super().__setitem__(token, value)
        raise KeyboardInterrupt


def test_interrupts_at_the_gate():
    gate = RequestGate()
    gate._running = Interrupted()
    with pytest.raises(KeyboardInterrupt), gate.request():
        pass
    assert not gate._running

    def interrupt():
        raise KeyboardInterrupt

    gate._has_left.wait = interrupt
    gate._running = {object(): None}  # a request that the swap waits for
    with pytest.raises(KeyboardInterrupt), gate.swap():
        pass
    gate._running = {}
    with gate.request():  # the gate is open again
        pass


@pytest.mark.parametrize("is_exported", [False, True])
def test_contents_that_are_not_followed_are_refused(tmp_path, is_exported):
    def model():
        save_tables_in_checkpoints()
        inputs, outputs = build()
        words = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, -1.0, name="words")
        return inputs, {**outputs, "words": words.lookup(inputs["keys"])}

    if is_exported:
        with tf.Graph().as_default(), tf1.Session() as session:
            model()
            saver = tf1.train.Saver()
            session.run(tf1.global_variables_initializer())
            path = saver.save(session, f"{tmp_path}/model")
        model = export_saved_model(tmp_path / "exported", model, path)
    with pytest.raises(NotImplementedError, match="words would keep the contents of the first"):
        Follower(model, tmp_path)


def test_a_variable_that_grows(tmp_path):
    def model(size=2):
        first = tf.fill([size], float(size))
        variable = tf1.get_variable(
            "v", initializer=first, validate_shape=False, use_resource=False
        )
        return {"x": tf1.placeholder(tf.float32)}, {"v": tf.identity(variable)}

    with Follower(model, tmp_path, poll_seconds=0.02) as made:
        for size in (2, 3):
            with tf.Graph().as_default(), tf1.Session() as session:
                model(size)
                session.run(tf1.global_variables_initializer())
                tf1.train.Saver().save(session, f"{tmp_path}/model", size)
            made.wait(f"model-{size}", SECONDS)
            assert made.run({"x": 0})["v"].tolist() == [size] * size


def test_a_variable_with_the_name_of_a_seed(graph, tmp_path):
    """A later version is swapped in, as always."""

    def model():
        keys = tf1.placeholder(tf.int64, [None])
        table = Table(None, 3, "uniform", name="t", seed=3)
        step = tf1.get_variable("dropout/seed", initializer=tf.constant(1, tf.int64))
        (rows,) = lookup_group([Lookup(table, keys)], insert=False)
        return {"keys": keys}, {"rows": rows, "step": step.value()}

    save_tables_in_checkpoints()
    model()
    (step,), saver = tf1.global_variables("dropout"), IncrementalSaver()
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        paths = [saver.save(session, f"{tmp_path}/model", 1)]
        session.run(step.assign(2))
        paths.append(saver.save(session, f"{tmp_path}/model", 2))
    before, after = map(Version.at, paths)
    served = ServedModel(model, FIRST_VALUES, None)
    served.restore(before)
    changes = served.read(after)
    assert changes.feeds is not None
    served.swap(changes)
    assert served.run({"keys": [5]}, "serving_default")["step"] == 2
    served.close()
