# SPDX-License-Identifier: Apache-2.0
"""Which TensorFlow a build takes, and what it says when there is none that fits."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.environments import REPOSITORY, write_files

SCRIPT = REPOSITORY / "cmake" / "tensorflow_install.py"
VERSION_H = "tensorflow/include/tensorflow/core/public/version.h"
NUMBERS = """\
#define TF_MAJOR_VERSION {}
#define TF_MINOR_VERSION {}
#define TF_PATCH_VERSION {}
#define TF_VERSION_SUFFIX ""
"""


def run_script(*arguments):
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False
    )


def fake_tensorflow(site_packages, version):
    write_files(site_packages, {VERSION_H: NUMBERS.format(*version.split("."))})


def test_describes_the_tensorflow_that_is_imported():
    import tensorflow as tf

    done = run_script()
    assert done.returncode == 0, done.stderr
    directory, version, library, cxx11_abi = done.stdout.splitlines()
    assert Path(directory) == Path(tf.__file__).parent
    assert version == tf.__version__
    assert Path(library).name in tf.sysconfig.get_link_flags()[1]
    assert int(cxx11_abi) == tf.sysconfig.CXX11_ABI_FLAG


PACKAGING = "tensorflow/tools/pip_package/setup.py"


@pytest.mark.parametrize(
    "files, version",
    [
        ({VERSION_H: NUMBERS.format(2, 19, 1)}, "2.19.1"),
        ({VERSION_H: NUMBERS.format(2, 19, 1).replace('""', '"-rc0"')}, "2.19.1-rc0"),
        ({VERSION_H: "", PACKAGING: "import os\n_VERSION = '2.21.0'\n"}, "2.21.0"),
        ({VERSION_H: "", PACKAGING: "_VERSION = '2.21.0rc1'\n"}, "2.21.0-rc1"),
        ({VERSION_H: ""}, None),
        ({PACKAGING: "_VERSION = '2.21.0'\n"}, None),
    ],
)
def test_where_a_release_says_its_version(tensorflow_install, tmp_path, files, version):
    """2.19 in its headers, 2.20 and later in the script that made the wheel."""
    write_files(tmp_path, files)
    found = tensorflow_install._read(tmp_path / "tensorflow")
    assert (found.version if found else None) == version


@pytest.mark.parametrize("version", ["2.14.1", "2.22.0", "1.15.5", "2.15", "newest"])
def test_unsupported_version_is_named(version):
    done = run_script("--check", version)
    assert done.returncode == 1
    assert "2.15 to 2.21" in done.stderr and version in done.stderr


def test_an_untested_version_may_be_asked_for(tensorflow_install, monkeypatch):
    monkeypatch.setenv("SOK_UNTESTED_TENSORFLOW", "1")
    tensorflow_install.check_version("2.22.0-dev20260905")


@pytest.mark.parametrize(
    "python, version, words",
    [
        ((3, 9), "2.20.0", None),
        ((3, 9), "2.21.0", "Take Python 3.10 to 3.13, or TensorFlow 2.15 to 2.20"),
        ((3, 12), "2.15.1", "Take Python 3.9 to 3.11, or TensorFlow 2.16 to 2.21"),
        ((3, 12), "2.16.2", None),
        ((3, 13), "2.19.1", "Take Python 3.9 to 3.12, or TensorFlow 2.20 to 2.21"),
        ((3, 13), "2.21.0", None),
        ((3, 8), "2.15.1", "needs Python 3.9 to 3.13; this is Python 3.8"),
        ((3, 14), "2.21.0", "needs Python 3.9 to 3.13; this is Python 3.14"),
    ],
)
def test_each_tensorflow_has_its_pythons(tensorflow_install, monkeypatch, python, version, words):
    monkeypatch.setattr(sys, "version_info", (*python, 0, "final", 0))
    if words is None:
        tensorflow_install.check_version(version)
        return
    with pytest.raises(ValueError, match=words):
        tensorflow_install.check_version(version)


@pytest.mark.parametrize(
    "python, default, others",
    [
        ((3, 9), "2.15.1", {"2.15.1": None, "2.18.1": "2.15.1"}),
        ((3, 11), "2.15.1", {"2.15.1": "2.21.0", "2.21.0": "2.15.1", "2.18.1": "2.15.1"}),
        ((3, 13), "2.21.0", {"2.21.0": None}),
    ],
)
def test_the_other_tested_version(tensorflow_install, monkeypatch, python, default, others):
    """None, and no error, where this Python has only one."""
    monkeypatch.setattr(sys, "version_info", (*python, 0, "final", 0))
    assert tensorflow_install.default_version() == default
    assert {version: tensorflow_install.other_version(version) for version in others} == others


@pytest.mark.parametrize("version, packages", [
    ("2.15.1", []),
    ("2.20.0", ["tf-keras==2.20.*", "protobuf<7"]),
    ("2.21.0", ["tf-keras==2.21.*"]),
])  # fmt: skip
def test_what_newer_tensorflow_does_not_bring(version, packages):
    assert run_script("--companions", version).stdout.split() == packages


@pytest.mark.parametrize(
    "installed, asked, required",
    [
        ("2.16.2", None, []),
        (None, "2.17.1", ["tensorflow-cpu==2.17.1"]),
        ("2.16.2", "2.17.1", ["tensorflow-cpu==2.17.1"]),
        ("2.17.1", "2.17.1", []),
    ],
)
def test_build_takes_what_is_installed_or_requires_what_is_asked_for(
    empty_environment, monkeypatch, installed, asked, required
):
    (empty_environment.directory / "packages" / "tensorflow").unlink()
    if installed:
        fake_tensorflow(empty_environment.site_packages, installed)
    monkeypatch.setenv("SOK_BUILD_TENSORFLOW", asked or "")
    code = "import build_backend; print(build_backend.get_requires_for_build_wheel())"
    path = f"import sys; sys.path.insert(0, {str(REPOSITORY / 'cmake')!r}); "
    requirements = empty_environment.run(path + code, cwd=REPOSITORY)
    assert [name for name in eval(requirements) if "tensorflow" in name] == required
