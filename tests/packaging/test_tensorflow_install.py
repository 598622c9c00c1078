# SPDX-License-Identifier: Apache-2.0
"""Which TensorFlow a build takes, and what it says when there is none that fits."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.environments import REPOSITORY, write_files

SCRIPT = REPOSITORY / "cmake" / "tensorflow_install.py"
VERSION_HEADER = """\
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
    header = "tensorflow/include/tensorflow/core/public/version.h"
    write_files(site_packages, {header: VERSION_HEADER.format(*version.split("."))})


def test_describes_the_tensorflow_that_is_imported():
    import tensorflow as tf

    done = run_script()
    assert done.returncode == 0, done.stderr
    directory, version, library, cxx11_abi = done.stdout.splitlines()
    assert Path(directory) == Path(tf.__file__).parent
    assert version == tf.__version__
    assert Path(library).name in tf.sysconfig.get_link_flags()[1]
    assert int(cxx11_abi) == tf.sysconfig.CXX11_ABI_FLAG


@pytest.mark.parametrize("version", ["2.14.1", "2.19.0", "1.15.5", "2.15", "newest"])
def test_unsupported_version_is_named(version):
    done = run_script("--check", version)
    assert done.returncode == 1
    assert "2.15 to 2.18" in done.stderr and version in done.stderr


def test_the_other_tested_version():
    """None, and no error, where this Python has only one."""
    has_both = sys.version_info < (3, 12)
    assert run_script("--default").stdout.strip() == ("2.15.1" if has_both else "2.18.1")
    assert run_script("--other", "2.15.1").stdout.strip() == "2.18.1"
    assert run_script("--other", "2.18.1").stdout.strip() == ("2.15.1" if has_both else "")
    assert run_script("--other", "2.17.1").stdout.strip() == ("2.15.1" if has_both else "2.18.1")


@pytest.mark.parametrize("version, keras", [("2.15.1", []), ("2.18.1", ["tf-keras==2.18.*"])])
def test_newer_tensorflow_needs_keras_2(version, keras):
    assert run_script("--keras", version).stdout.split() == keras


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
