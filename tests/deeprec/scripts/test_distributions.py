# SPDX-License-Identifier: Apache-2.0
"""Launched scripts that ask for the version of a distribution `tensorflow` find DeepRec."""

import importlib.metadata
import os
import re
import subprocess
import sys

import pytest

from sok_compat.run import distributions
from tests.packaging.environments import REPOSITORY

SCRIPT = """
import importlib.metadata, sys
from importlib.metadata import version
try:
    import pkg_resources
except ImportError:  # ended with setuptools 81
    print(version("Tensorflow"))
else:
    print(pkg_resources.get_distribution("Tensorflow").version)
print(version("tensorflow"), importlib.metadata.distribution("tensorflow").metadata["Name"])
print(sys.path[1], "tensorflow" in sys.modules)
"""


@pytest.fixture
def installed():
    yield distributions._version_of_tensorflow()
    distributions.answer_as_installed()


def test_a_script_finds_deeprec_in_the_version(tmp_path, installed):
    (tmp_path / "script.py").write_text(SCRIPT)
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    lines = subprocess.check_output(
        [sys.executable, "-W", "ignore", "-m", "sok_compat.run", "script.py"],
        cwd=tmp_path, text=True, env={**os.environ, "PYTHONPATH": path},
    ).splitlines()  # fmt: skip
    expected = f"{installed}+{distributions._OF_DEEPREC}"
    assert lines[:2] == [expected, f"{expected} tensorflow"] and "deeprec" in expected
    folder, is_imported = lines[2].split()
    assert is_imported == "False" and not os.path.exists(folder)


def test_it_is_undone(installed):
    before = list(sys.path)
    distributions.answer_as_deeprec()
    distributions.answer_as_deeprec()
    assert len(sys.path) == len(before) + 1 and os.listdir(sys.path[1])
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
