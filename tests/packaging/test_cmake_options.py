# SPDX-License-Identifier: Apache-2.0
"""What CMake says to options that cannot be met. Configures only, compiles nothing."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.packaging.environments import write_files

CMAKE = shutil.which("cmake", path=f"{sys.prefix}/bin") or shutil.which("cmake")
CORE_ONLY = {"SOK_TENSORFLOW": "OFF", "SOK_ENGINE": "OFF"}
needs_nvcc = pytest.mark.skipif(
    not (os.environ.get("CUDACXX") or shutil.which("nvcc")), reason="there is no nvcc"
)


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


@pytest.fixture
def cuda_project(stub_project, tmp_path):
    project = shutil.copytree(stub_project, tmp_path / "project")
    write_files(project, {"ops/cuda/stub.cu": "__global__ void Stub() {}\n"})
    return project


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
def test_cuda_sources_without_a_compiler(configure, cuda_project, cuda, is_error):
    status, output = configure(cuda_project, SOK_CUDA=cuda, CMAKE_CUDA_COMPILER="")
    assert (status != 0) == is_error, output
    assert ("there is no CUDA compiler" in output) == (cuda != "OFF")


@pytest.mark.parametrize("cuda, is_error", [("ON", True), ("AUTO", False)])
def test_a_cuda_compiler_that_does_not_work(configure, cuda_project, monkeypatch, cuda, is_error):
    nvcc = cuda_project / "nvcc"
    nvcc.write_text("#!/bin/sh\nexit 1\n")
    nvcc.chmod(0o755)
    monkeypatch.setenv("CUDACXX", str(nvcc))
    status, output = configure(cuda_project, SOK_CUDA=cuda)
    assert (status != 0) == is_error, output
    assert "cannot build a program" in output


@needs_nvcc
@pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="there is a GPU")
def test_a_compiler_without_a_gpu(configure, cuda_project, monkeypatch):
    monkeypatch.delenv("CUDAARCHS", raising=False)
    status, output = configure(cuda_project)
    assert status == 0 and "CUDA: no, this machine has no GPU" in output


@pytest.mark.thorough
@needs_nvcc
def test_cudaarchs_and_half_a_toolkit(configure, cuda_project, monkeypatch, tmp_path):
    monkeypatch.setenv("CUDAARCHS", "80;90-virtual")
    status, output = configure(cuda_project, CMAKE_EXPORT_COMPILE_COMMANDS="ON")
    assert status == 0 and "for 80;90-virtual" in output
    monkeypatch.delenv("CUDAARCHS")
    for has_headers, message in [
        ("OFF", "CUDA: no, the CUDA toolkit is not complete"),
        ("ON", "for 80;90-virtual"),  # what was said before stays
    ]:
        status, output = configure(cuda_project, SOK_CUDA_HAS_HEADERS=has_headers)
        assert status == 0 and message in output
        commands = (tmp_path / "build" / "compile_commands.json").read_text()
        assert (".cu" in commands) == (has_headers == "ON")


@pytest.mark.parametrize("option", ["SOK_CUDA_TESTS", "SOK_CUDA_BENCHMARKS"])
def test_what_needs_cuda_says_why_there_is_none(configure, option):
    status, output = configure(SOK_CUDA="OFF", **{option: "ON"})
    assert status != 0
    assert f"{option}=ON needs the CUDA back end, but SOK_CUDA was OFF" in output


@pytest.mark.parametrize("value, is_error", [(None, False), ("ON", True), ("OFF", False)])
def test_warnings_are_errors_where_that_is_asked_for(configure, tmp_path, value, is_error):
    options = {"SOK_WARNINGS_AS_ERRORS": value} if value else {}
    status, output = configure(CMAKE_EXPORT_COMPILE_COMMANDS="ON", SOK_CUDA="OFF", **options)
    assert status == 0, output
    (command,) = json.loads((tmp_path / "build" / "compile_commands.json").read_text())
    assert ("-Werror" in command["command"].split()) == is_error


def test_missing_tensorflow_is_an_error_with_a_way_out(configure, tmp_path):
    status, output = configure(SOK_TENSORFLOW="ON", SOK_TENSORFLOW_DIR=tmp_path / "tensorflow")
    assert status != 0
    assert f"TensorFlow is not installed in {tmp_path}/tensorflow" in output
    assert "-DSOK_TENSORFLOW=OFF" in output
