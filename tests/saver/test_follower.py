# SPDX-License-Identifier: Apache-2.0
"""sok_compat.serving.Follower: what is served while a trainer saves increments."""

import logging
import os
import random
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.checkpoint import IncrementalSaver, save_tables_in_checkpoints
from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.runtime.op_library import ops
from sok_compat.serving import Follower, export_saved_model
from sok_compat.tables import Table
from tests.support.saves.damaged_files import copy
from tests.support.saves.followed_model import Trainer, build, keys_seen, number_seen, training

tf1 = tf.compat.v1
SECONDS = 60
NUMBERS = range(1, 7)


@pytest.fixture
def trained(graph, tmp_path):
    """(Trainer, session, folder)."""
    trainer = Trainer()
    with tf1.Session() as session:
        session.run(trainer.init)
        yield trainer, session, str(tmp_path / "trained")


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    """A folder with the versions of NUMBERS: whole ones 1 and 5, else increments."""
    folder = str(tmp_path_factory.mktemp("series"))
    with training() as (trainer, session):
        trainer.write(session, folder, NUMBERS, wholes=[5])
    return folder


class Folder:
    """A copy of a series that grows, as by a program that copies files."""

    def __init__(self, series, path):
        self.series, self.path = series, str(path)
        os.makedirs(path)

    def publish(self, number, damage=None, is_latest=True):
        self.replace(number, damage)
        if is_latest:
            with open(f"{self.path}/checkpoint.partial", "w") as file:
                file.write(f'model_checkpoint_path: "model-{number}"\n')
            os.rename(f"{self.path}/checkpoint.partial", f"{self.path}/checkpoint")

    def replace(self, number, damage=None):
        to = f"{self.path}/model-{number}"
        copy(f"{self.series}/model-{number}", to)
        if damage is not None:
            damage(to)


@pytest.fixture
def folder(series, tmp_path):
    return Folder(series, tmp_path / "followed")


@pytest.fixture
def follower(folder):
    with Follower(build, folder.path, poll_seconds=0.02) as made:
        yield made


def assert_serves(follower, number):
    assert follower.version() == f"model-{number}"
    assert number_seen(follower, np.random.default_rng(number)) == number
    assert keys_seen(follower, NUMBERS) == {number}  # evicted keys are missing keys


def await_problem(follower, text):
    end = time.monotonic() + SECONDS
    while text not in follower.problem():
        assert time.monotonic() < end, f"{text!r} not in {follower.problem()!r}"
        time.sleep(0.01)


def test_serves_each_version(trained):
    trainer, session, folder = trained
    told = []
    with Follower(build, folder, poll_seconds=0.02, on_version=told.append) as follower:
        with pytest.raises(RuntimeError, match="no checkpoint to serve yet"):
            follower.run({"keys": [1]})
        for number in NUMBERS:
            trainer.make(session, number)
            path = trainer.save(session, folder, number, is_whole=number == 5)
            assert follower.wait(os.path.basename(path), SECONDS) == os.path.basename(path)
            assert_serves(follower, number)
        assert follower.wait("model-2", 0) == "model-6"  # one after it
    assert told == [f"model-{number}" for number in NUMBERS]
    with pytest.raises(RuntimeError, match="closed"):
        follower.run({"keys": [1]})


def test_starts_with_the_last_version(folder):
    for number in NUMBERS:
        folder.publish(number)
    with Follower(build, folder.path) as follower:
        assert follower.wait(timeout=SECONDS) == "model-6"
        assert_serves(follower, 6)
        assert follower.wait("model-5", 0)  # a link of it


def flip(places):
    """Changes a bit in each byte of a part of the data."""

    def damage(prefix):
        with open(f"{prefix}.data-00000-of-00001", "r+b") as file:
            content = bytearray(file.read())
            content[places] = bytes(each ^ 1 for each in content[places])
            file.seek(0)
            file.write(content)

    return damage


DAMAGES = {
    "data cut": (
        lambda prefix: os.truncate(f"{prefix}.data-00000-of-00001", 100),
        "it ends within",
    ),
    "data removed": (lambda prefix: os.unlink(f"{prefix}.data-00000-of-00001"), "data-00000"),
    "index cut": (lambda prefix: os.truncate(f"{prefix}.index", 50), "model-3.index"),
    "index removed": (lambda prefix: os.unlink(f"{prefix}.index"), "model-3.index is missing"),
    "bits of rows": (flip(slice(-100, None)), "CRC-32C of right"),
    "bits of a variable": (flip(slice(0, 100)), "CRC-32C of dense"),
}


@pytest.mark.parametrize("is_latest", [True, False])
@pytest.mark.parametrize("damage, message", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_link_is_refused(folder, follower, caplog, damage, message, is_latest):
    """The version before stays until the link is whole, also if later ones are there."""
    folder.publish(1)
    folder.publish(2)
    follower.wait("model-2", SECONDS)
    with caplog.at_level(logging.WARNING, "sok_compat"):
        folder.publish(3, damage)
        if not is_latest:
            folder.publish(4)
        await_problem(follower, message)
    assert "model-2 stays: " in caplog.text
    assert_serves(follower, 2)
    assert follower.lag_seconds() > 0
    with pytest.raises(TimeoutError, match=message):
        follower.wait("model-4", 0)
    folder.replace(3)
    last = 3 if is_latest else 4
    follower.wait(f"model-{last}", SECONDS)
    assert_serves(follower, last)
    await_problem(follower, "")
    assert follower.lag_seconds() == 0


@pytest.mark.parametrize("damage, message", [DAMAGES["bits of rows"], DAMAGES["index removed"]])
def test_starts_before_a_damaged_link(folder, damage, message):
    for number in range(1, 5):
        folder.publish(number, damage if number == 3 else None)
    with Follower(build, folder.path) as follower:
        follower.wait(timeout=SECONDS)
        await_problem(follower, message)
        assert_serves(follower, 2)


def test_links_that_come_in_another_order(folder, follower):
    folder.publish(1)
    follower.wait("model-1", SECONDS)
    folder.publish(4)
    await_problem(follower, "model-3.index is missing")
    folder.publish(3, is_latest=False)
    await_problem(follower, "model-2.index is missing")
    assert_serves(follower, 1)
    folder.publish(2, is_latest=False)
    follower.wait("model-4", SECONDS)
    assert_serves(follower, 4)


def test_another_series(folder, follower, trained):
    """Of a trainer that has begun anew under the same names."""
    folder.publish(1)
    folder.publish(2)
    follower.wait("model-2", SECONDS)
    trainer, session, other = trained
    for number in (2, 3):
        trainer.make(session, number)
        trainer.save(session, other, number)
    folder.series = other
    folder.publish(2)
    folder.publish(3)
    follower.wait("model-3", SECONDS)
    assert_serves(follower, 3)


def test_rollback_stays_until_resume(folder, follower):
    for number in NUMBERS[:-1]:
        folder.publish(number)
        follower.wait(f"model-{number}", SECONDS)
    for number in (2, 4, 1):
        follower.rollback(f"model-{number}")
        assert_serves(follower, number)
    with pytest.raises(FileError, match="model-9"):
        follower.rollback("model-9")
    folder.publish(6)
    time.sleep(0.2)
    assert_serves(follower, 1)
    assert follower.lag_seconds() > 0
    follower.resume()
    follower.wait("model-6", SECONDS)
    assert_serves(follower, 6)


def test_an_exported_model_serves_its_own_contents_first(folder, series, tmp_path):
    exported = export_saved_model(tmp_path / "exported", build, f"{series}/model-2")
    with Follower(exported, folder.path, poll_seconds=0.02) as follower:
        assert follower.version() is None
        assert number_seen(follower, np.random.default_rng(0)) == 2
        folder.publish(1)
        folder.publish(2)
        folder.publish(3)
        follower.wait("model-3", SECONDS)
        assert_serves(follower, 3)


def test_rows_of_two_bytes(graph, tmp_path):
    """In checkpoints, too; a whole one counts with the rows that differ."""

    def table():
        return Table(None, 3, "zeros", name="t", row_dtype="bfloat16")

    def build_narrow():
        keys = tf1.placeholder(tf.int64, [None])
        (rows,) = lookup_group([Lookup(table(), keys)], insert=False)
        return {"keys": keys}, {"rows": rows}

    save_tables_in_checkpoints()
    keys, rows = tf1.placeholder(tf.int64, [None]), tf1.placeholder(tf.float32, [None, 3])
    insert = ops.sok_insert_rows(table().table_handle, keys, rows)
    saver = IncrementalSaver()
    with tf1.Session() as session, Follower(build_narrow, tmp_path) as follower:
        session.run(tf1.global_variables_initializer())
        for number, save in enumerate([saver.save, saver.save_increment, saver.save]):
            session.run(insert, {keys: [number], rows: [[number + 0.5] * 3]})
            path = save(session, f"{tmp_path}/model", number)
            follower.wait(os.path.basename(path), SECONDS)
            served = follower.run({"keys": [0, 1, 2]})["rows"][:, 0]
            assert served.tolist() == [n + 0.5 if n <= number else 0 for n in range(3)]


def test_first_values_of_another_series(graph, tmp_path):
    """Of a trainer that began anew: missing keys have its first values, not those before."""

    def model(seed):
        keys = tf1.placeholder(tf.int64, [None])
        table = Table(None, 3, "uniform", name="t", seed=seed)
        (rows,) = lookup_group([Lookup(table, keys)], insert=False)
        return table, keys, rows

    def build_of_another_seed():
        _, keys, rows = model(seed=3)
        return {"keys": keys}, {"rows": rows}

    save_tables_in_checkpoints()
    with Follower(build_of_another_seed, tmp_path) as follower:
        for seed in (1, 2):
            with tf.Graph().as_default(), tf1.Session() as session:
                table, keys, rows = model(seed)
                insert = ops.sok_insert_rows(table.table_handle, [5], [[float(seed)] * 3])
                saver = IncrementalSaver()
                session.run(tf1.global_variables_initializer())
                session.run(insert)
                path = saver.save(session, f"{tmp_path}/model", seed)
                expected = session.run(rows, {keys: [5, 6, 7]})
            follower.wait(os.path.basename(path), SECONDS)
            np.testing.assert_array_equal(follower.run({"keys": [5, 6, 7]})["rows"], expected)


def test_arguments(folder, follower):
    folder.publish(1)
    follower.wait(timeout=SECONDS)
    with pytest.raises(ValueError, match=r"inputs \['keys'\], got \['ids'\]"):
        follower.run({"ids": [1]})
    with pytest.raises(ValueError, match="no signature 'other': .*serving_default"):
        follower.run({"keys": [1]}, "other")
    with pytest.raises(ValueError, match="poll_seconds must be above 0"):
        Follower(build, folder.path, poll_seconds=0)


class Process:
    """A trainer, or a server, in a process of its own."""

    def __init__(self, *arguments):
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "tests.support.saves.followed_model", *map(str, arguments)],
            stdout=subprocess.PIPE,
            text=True,
        )

    def read(self):
        line = self._popen.stdout.readline()
        assert line, "the process has ended"
        return line.strip()

    def kill(self):
        self._popen.kill()
        self._popen.communicate()


@pytest.mark.parametrize(
    "num_versions, num_requests, num_kills",
    [(10, 500, 0), (10, 500, 2), pytest.param(40, 20_000, 8, marks=pytest.mark.thorough)],
)
def test_no_request_sees_two_versions(tmp_path, num_versions, num_requests, num_kills):
    """The trainer is another process, which may be killed at any moment."""
    folder, seen, counts, errors = str(tmp_path / "trained"), set(), [0] * 4, []
    moments, done = random.Random(num_versions), threading.Event()

    def request(thread):
        numbers = np.random.default_rng(thread)
        try:
            while not done.is_set():
                seen.add(number_seen(follower, numbers))
                counts[thread] += 1
        except BaseException as error:
            errors.append(error)

    trainer = Process("train", folder)
    with Follower(build, folder, poll_seconds=0.01) as follower:
        follower.wait(timeout=SECONDS)
        threads = [threading.Thread(target=request, args=[n]) for n in range(len(counts))]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 30 * SECONDS
        try:
            while num_kills or len(seen) < num_versions or sum(counts) < num_requests:
                assert not errors and time.monotonic() < end, (errors, seen, follower.problem())
                trainer.read()
                if num_kills:
                    time.sleep(moments.uniform(0, 0.5))
                    trainer.kill()
                    trainer, num_kills = Process("train", folder), num_kills - 1
        finally:
            trainer.kill()
            done.set()
            for thread in threads:
                thread.join()
    assert not errors


@pytest.mark.thorough
def test_a_server_that_is_killed(tmp_path):
    """Servers leave the folder as it is: the next one serves, and the trainer goes on."""
    folder, moments = str(tmp_path / "trained"), random.Random(1)
    trainer = Process("train", folder)
    try:
        for _ in range(5):
            server = Process("serve", folder)
            server.read()  # checked answers
            time.sleep(moments.uniform(0, 0.5))
            server.kill()
        before = int(trainer.read())
        assert int(trainer.read()) > before
    finally:
        trainer.kill()
