# SPDX-License-Identifier: Apache-2.0
"""What CMake says to options that cannot be met. Configures only, compiles nothing."""

import shutil
import subprocess
import sys

import pytest

from tests.packaging.environments import write_files

CMAKE = shutil.which("cmake", path=f"{sys.prefix}/bin") or shutil.which("cmake")
CORE_ONLY = {"SOK_TENSORFLOW": "OFF", "SOK_ENGINE": "OFF"}


@pytest.fixture
def configure(stub_project, tmp_path):
    def run(source=stub_project, **options):
        """Returns the exit status and all output, spaces made single."""
        definitions = [f"-D{name}={value}" for name, value in {**CORE_ONLY, **options}.items()]
        definitions.append(f"-DPython_EXECUTABLE={sys.executable}")
        done = subprocess.run(
            [CMAKE, "-S", source, "-B", tmp_path / "build", *definitions],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, " ".join(done.stdout.split())

    return run


def test_cuda_auto_without_back_end_builds_for_the_cpu_and_says_so(configure):
    status, output = configure(SOK_CUDA="AUTO")
    assert status == 0, output
    assert "this source tree has no CUDA back end (CPU back end only)" in output


@pytest.mark.parametrize(
    "cuda, message",
    [
        ("ON", "SOK_CUDA=ON, but this source tree has no CUDA back end"),
        ("YES", "SOK_CUDA must be AUTO, ON or OFF, got 'YES'"),
    ],
)
def test_cuda_that_cannot_be_is_an_error(configure, cuda, message):
    status, output = configure(SOK_CUDA=cuda)
    assert status != 0
    assert message in output


@pytest.mark.parametrize("cuda, is_error", [("ON", True), ("AUTO", False), ("OFF", False)])
def test_cuda_sources_without_a_compiler(configure, stub_project, tmp_path, cuda, is_error):
    project = shutil.copytree(stub_project, tmp_path / "project")
    write_files(project, {"ops/cuda/stub.cu": "__global__ void Stub() {}\n"})
    status, output = configure(project, SOK_CUDA=cuda, CMAKE_CUDA_COMPILER="")
    assert (status != 0) == is_error, output
    assert ("no CUDA compiler" in output or "finds no CUDA compiler" in output) == (cuda != "OFF")


def test_missing_tensorflow_is_an_error_with_a_way_out(configure, tmp_path):
    status, output = configure(SOK_TENSORFLOW="ON", SOK_TENSORFLOW_DIR=tmp_path / "tensorflow")
    assert status != 0
    assert f"TensorFlow is not installed in {tmp_path}/tensorflow" in output
    assert "-DSOK_TENSORFLOW=OFF" in output
