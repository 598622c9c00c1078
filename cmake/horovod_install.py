# SPDX-License-Identifier: Apache-2.0
"""Builds Horovod against the TensorFlow of this Python, and installs it.

Needs cmake<4, ninja or make, setuptools<81 and wheel in the environment. Environment variables
HOROVOD_... reach the build as they are; without any, it has TensorFlow and Gloo alone or, with the
argument --mpi, MPI as well: that of the environment's package mpich, or of the PATH.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import progress
import tensorflow_install

REQUIREMENT = "horovod==0.28.1"
DEFAULTS = {
    "HOROVOD_WITH_TENSORFLOW": "1",
    "HOROVOD_WITH_GLOO": "1",
    "HOROVOD_WITHOUT_MPI": "1",
    "HOROVOD_WITHOUT_PYTORCH": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
}
# (a file of Horovod's build, part of one of its lines, the line that replaces it). For TensorFlow
# Horovod makes a second Gloo, of C++17, and links that: the first need not be compiled. Debug
# information is 50 of the library's 53 MB, and takes long to write.
FASTER = (
    ("CMakeLists.txt", "add_subdirectory(third_party/gloo)",
     "add_subdirectory(third_party/gloo EXCLUDE_FROM_ALL)"),
    ("CMakeLists.txt", '"-O3" CMAKE_CXX_FLAGS_RELWITHDEBINFO',
     'set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -DNDEBUG")'),
)  # fmt: skip
# Compiling twelve files at once takes a fifth less time. Files of ops stay alone: TensorFlow's
# macros clash with Horovod's. Other parts than the defaults were not tried, and are built as usual.
TWELVE_AT_ONCE = (
    "horovod/tensorflow/CMakeLists.txt",
    "add_library(${TF_TARGET_LIB} SHARED",
    """\
add_library(${TF_TARGET_LIB} SHARED ${SOURCES} ${TF_SOURCES})
set_target_properties(${TF_TARGET_LIB} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
set_source_files_properties(${TF_SOURCES} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)""",
)
WITHOUT_XLA = ("horovod/tensorflow/CMakeLists.txt", "horovod/tensorflow/xla_mpi_ops.cc", "")


def main(arguments: list) -> None:
    has_mpi = arguments == ["--mpi"]
    install = tensorflow_install.find()
    if install is None:
        sys.exit("Horovod compiles against TensorFlow: install that first")
    with tempfile.TemporaryDirectory() as directory:
        sources = unpack(download(Path(directory)))
        for change in changes_for(install.version, os.environ):
            replace_line(sources, *change)
        status = progress.run(
            f"building {REQUIREMENT} for TensorFlow {install.version}: minutes",
            [*_pip("install"), "--verbose", str(sources)],  # builds a directory anew each time
            build_environment(os.environ, has_mpi),
        )
    sys.exit(status)


def changes_for(tensorflow_version: str, environment: dict) -> list:
    """The arguments of replace_line for each change to Horovod's build."""
    changes = [*FASTER]
    if not has_choice(environment):
        changes.append(TWELVE_AT_ONCE)
    if not tensorflow_install.has_horovod_xla(tensorflow_version):
        changes.append(WITHOUT_XLA)
    return changes


def download(directory: Path) -> Path:
    """The archive of Horovod's sources, from the package index."""
    options = ["--quiet", "--no-deps", "--no-binary", "horovod", "--dest", str(directory)]
    command = [*_pip("download"), *options, REQUIREMENT]
    subprocess.run(command, env=build_environment(os.environ), check=True)
    return next(directory.glob("horovod-*.tar.gz"))


def unpack(archive: Path) -> Path:
    """The directory that it was unpacked to, beside the archive."""
    with tarfile.open(archive) as sources:
        if hasattr(tarfile, "data_filter"):
            sources.extraction_filter = tarfile.data_filter
        sources.extractall(archive.parent)
    return archive.parent / archive.name[: -len(".tar.gz")]


def replace_line(sources: Path, name: str, part: str, replacement: str) -> None:
    """Replaces the one line of a file that contains `part`.

    Raises:
      ValueError: there is no such line, or more than one.
    """
    path = sources / name
    lines = path.read_text().splitlines()
    found = [number for number, line in enumerate(lines) if part in line]
    if len(found) != 1:
        raise ValueError(f"{path} has {part} in {len(found)} lines, not 1: is it {REQUIREMENT}?")
    lines[found[0]] = replacement
    path.write_text("\n".join(lines) + "\n")


def has_choice(environment: dict) -> bool:
    """Whether the caller chooses parts of Horovod."""
    return any(name.startswith(("HOROVOD_WITH", "HOROVOD_GPU")) for name in environment)


def build_environment(environment: dict, has_mpi: bool = False) -> dict:
    """What Horovod's build sees: the caller's choice, or the defaults where there is none."""
    programs = Path(sys.executable).parent  # cmake of a virtual environment that is not activated
    defaults = dict(DEFAULTS)
    if has_mpi:
        del defaults["HOROVOD_WITHOUT_MPI"]
        defaults["HOROVOD_WITH_MPI"] = "1"
    return {
        **({} if has_choice(environment) else defaults),
        **environment,
        "PATH": os.pathsep.join([str(programs), environment.get("PATH", os.defpath)]),
    }


def _pip(command: str) -> list:
    options = ["--disable-pip-version-check", "--no-build-isolation"]
    return [sys.executable, "-m", "pip", command, *options]


if __name__ == "__main__":
    main(sys.argv[1:])
