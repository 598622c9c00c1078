# SPDX-License-Identifier: Apache-2.0
"""Launched scripts that ask for the version of a distribution `tensorflow` find DeepRec."""

import importlib.metadata
import os
import re
import subprocess
import sys
import zipfile

import pytest

from sok_compat.run import distributions
from tests.packaging.environments import REPOSITORY

SCRIPT = """
import importlib.metadata, os, sys
from importlib.metadata import version
try:
    import pkg_resources
except ImportError:  # ended with setuptools 81
    print(version("Tensorflow"))
else:
    print(pkg_resources.get_distribution("Tensorflow").version)
print(version("tensorflow"), importlib.metadata.distribution("tensorflow").metadata["Name"])
print("tensorflow" in sys.modules, flush=True)
os.kill(os.getpid(), {signal})
"""


@pytest.fixture
def installed():
    distributions.answer_as_installed()  # a script may have been run in this process
    yield distributions._version_of_tensorflow()
    distributions.answer_as_installed()


@pytest.mark.parametrize("signal", [0, 9])
def test_a_script_finds_deeprec_in_the_version(tmp_path, installed, signal):
    """Nothing stays on disk, also if the process is killed."""
    (tmp_path / "script.py").write_text(SCRIPT.format(signal=signal))
    (tmp_path / "temporary").mkdir()
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    environment = {"PYTHONPATH": path, "TMPDIR": str(tmp_path / "temporary")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "sok_compat.run", "script.py"],
        cwd=tmp_path, text=True, env={**os.environ, **environment}, capture_output=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == -signal, done.stderr
    lines = done.stdout.splitlines()
    expected = f"{installed}+{distributions._OF_DEEPREC}"
    assert lines[:2] == [expected, f"{expected} tensorflow"] and "deeprec" in expected
    assert lines[2] == "False" and not os.listdir(tmp_path / "temporary")


def test_it_is_undone(installed):
    before = list(sys.path)
    distributions.answer_as_deeprec()
    distributions.answer_as_deeprec()
    assert len(sys.path) == len(before) + 1 and zipfile.is_zipfile(sys.path[1])
    assert re.fullmatch(r"[\d.]+\+deeprec\d+", importlib.metadata.version("tensorflow"))
    folder = sys.path[1]
    distributions.answer_as_installed()
    assert sys.path == before and not os.path.exists(folder)
    assert distributions._version_of_tensorflow() == installed


def test_without_tensorflow_nothing_changes(monkeypatch):
    monkeypatch.setattr(distributions, "_INSTALLED", ("no-such-distribution",))
    before = list(sys.path)
    distributions.answer_as_deeprec()
    assert sys.path == before
