# SPDX-License-Identifier: Apache-2.0
"""Finds the installed TensorFlow without importing it, and says which versions fit.

Used by the build backend, by CMake and by the Makefile; knows nothing of sok_compat.
"""

from __future__ import annotations  # so that an older Python gets as far as check_version

import argparse
import mmap
import os
import re
import site
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# TensorFlow 2.minor: the first and last Python 3 that it exists for. No others are supported.
PYTHONS = {
    15: (9, 11),
    16: (9, 12),
    17: (9, 12),
    18: (9, 12),
    19: (9, 12),
    20: (9, 13),
    21: (10, 13),
}
LAST_PATCHES = {15: 1, 16: 2, 17: 1, 18: 1, 19: 1, 20: 0, 21: 0}  # of each minor release
FIRST_MINOR_WITHOUT_KERAS_2 = 16
MINOR_WITHOUT_PROTOBUF_7 = 20  # it writes graphs with what protobuf 7 lacks, and does not say so
FIRST_MINOR_WITHOUT_HOROVOD_XLA = 19  # Horovod 0.28.1's ops for XLA do not compile any more
TESTED_VERSIONS = ("2.15.1", "2.21.0")  # by every run of all tests; the first that fits, in full


class TensorFlowInstall(NamedTuple):
    """One TensorFlow on disk."""

    directory: Path  # the package: .../site-packages/tensorflow
    version: str  # "2.15.1"


def default_version() -> str:
    """The TensorFlow to build against when none is installed and none is asked for."""
    return next(filter(_is_supported, TESTED_VERSIONS), TESTED_VERSIONS[-1])


def other_version(version: str) -> str | None:
    """A tested TensorFlow that is not this one; None if there is none for this Python."""
    others = (other for other in TESTED_VERSIONS if other != version)
    return next(filter(_is_supported, others), None)


def releases(python: tuple | None = None) -> list:
    """The last release of each minor one, for a Python such as (3, 12), or for any."""
    minors = [minor for minor in PYTHONS if python is None or _exists(minor, python)]
    return [f"2.{minor}.{LAST_PATCHES[minor]}" for minor in minors]


def _is_supported(version: str) -> bool:
    try:
        check_version(version)
    except ValueError:
        return False
    return True


def check_version(version: str) -> None:
    """Raises ValueError unless sok_compat supports this TensorFlow on this Python, or the
    environment asks for one that nobody has tried."""
    if os.environ.get("SOK_UNTESTED_TENSORFLOW") == "1":
        return
    minors = sorted(PYTHONS)
    match = re.match(r"2\.(\d+)\.\d", version)
    if not match or int(match[1]) not in PYTHONS:
        raise ValueError(
            f"sok_compat works with TensorFlow 2.{minors[0]} to 2.{minors[-1]}, not with "
            f"{version!r}. Give a full version, for example {' or '.join(TESTED_VERSIONS)}."
        )
    here = sys.version_info[:2]
    fitting = [minor for minor in minors if _exists(minor, here)]
    if not fitting:
        first, last = min(PYTHONS.values())[0], max(last for _, last in PYTHONS.values())
        raise ValueError(
            f"sok_compat needs Python 3.{first} to 3.{last}; this is Python {here[0]}.{here[1]}. "
            f"Take another one: python3.{last} -m venv, or make PYTHON=python3.{last}."
        )
    minor = int(match[1])
    if minor not in fitting:
        raise ValueError(
            f"TensorFlow {version} does not exist for Python {here[0]}.{here[1]}. Take Python "
            f"3.{PYTHONS[minor][0]} to 3.{PYTHONS[minor][1]}, or TensorFlow 2.{fitting[0]} to "
            f"2.{fitting[-1]}."
        )


def _exists(minor: int, python: tuple) -> bool:
    first, last = PYTHONS[minor]
    return (3, first) <= python <= (3, last)


def companions(version: str) -> list:
    """What TensorFlow does not bring: Keras 2, which comes along up to 2.15, and a protobuf that it
    can use."""
    major, minor, _ = version.split(".", 2)
    keras = [f"tf-keras=={major}.{minor}.*"] if int(minor) >= FIRST_MINOR_WITHOUT_KERAS_2 else []
    return keras + (["protobuf<7"] if int(minor) == MINOR_WITHOUT_PROTOBUF_7 else [])


def has_horovod_xla(version: str) -> bool:
    """Whether Horovod's ops for XLA compile with this TensorFlow; the rest of it always does."""
    return int(version.split(".")[1]) < FIRST_MINOR_WITHOUT_HOROVOD_XLA


def find(version: str | None = None) -> TensorFlowInstall | None:
    """The installed TensorFlow of this environment (of this version, if given), or None.

    Site-packages come before sys.path: inside an isolated build sys.path holds only what the
    build asked for, while the TensorFlow that will be used lies in the environment around it.
    """
    for directory in _package_directories():
        install = _read(directory)
        if install and version in (None, install.version):
            return install
    return None


def _package_directories() -> Iterator[Path]:
    roots = site.getsitepackages()
    if site.ENABLE_USER_SITE or sys.prefix == sys.base_prefix:
        roots.append(site.getusersitepackages())
    for root in [*roots, *sys.path]:
        yield Path(root or os.curdir, "tensorflow").absolute()


def _read(directory: Path) -> TensorFlowInstall | None:
    if not _header(directory).is_file():
        return None
    version = _version_in_headers(directory) or _version_in_packaging(directory)
    return TensorFlowInstall(directory, version) if version else None


def _header(directory: Path) -> Path:
    return directory / "include" / "tensorflow" / "core" / "public" / "version.h"


def _version_in_headers(directory: Path) -> str | None:
    """Up to TensorFlow 2.19; later headers expect it on the compiler's command line."""
    text = _header(directory).read_text()
    parts = re.findall(r"#define TF_(?:MAJOR|MINOR|PATCH)_VERSION (\d+)", text)
    if len(parts) != 3:
        return None
    return ".".join(parts) + re.search(r'#define TF_VERSION_SUFFIX "(.*)"', text)[1]


def _version_in_packaging(directory: Path) -> str | None:
    """The one that TensorFlow's wheel was built with, from a file that it carries along."""
    script = directory / "tools" / "pip_package" / "setup.py"
    text = script.read_text() if script.is_file() else ""
    match = re.search(r"^_VERSION = ['\"](\d+\.\d+\.\d+)-?(\w*)['\"]", text, re.MULTILINE)
    return "-".join(filter(None, match.groups())) if match else None


def framework_library(install: TensorFlowInstall) -> Path:
    """The shared library that an op library links against."""
    libraries = sorted(install.directory.glob("libtensorflow_framework.so.*"))
    if not libraries:
        raise FileNotFoundError(f"no libtensorflow_framework.so.* in {install.directory}")
    return libraries[0]


def uses_cxx11_abi(library: Path) -> bool:
    """Whether TensorFlow's symbols use libstdc++'s std::__cxx11::string."""
    with open(library, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return re.search(rb"_ZNK?10tensorflow\w*St7__cxx11", data) is not None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--default", action="store_true", help="print the default version")
    parser.add_argument("--other", metavar="VERSION", help="print a tested version but this one")
    parser.add_argument("--check", metavar="VERSION", help="fail unless this one is supported")
    parser.add_argument("--companions", metavar="VERSION", help="print what pip installs beside it")
    parser.add_argument("--directory", help="describe this package directory")
    arguments = parser.parse_args()
    try:
        if arguments.default:
            print(default_version())
        elif arguments.other is not None:
            print(other_version(arguments.other) or "")
        elif arguments.check is not None:
            check_version(arguments.check)
        elif arguments.companions:
            print(*companions(arguments.companions))
        else:
            _describe(arguments.directory)
    except (ValueError, FileNotFoundError) as error:
        sys.exit(str(error))


def _describe(directory: str | None) -> None:
    """Prints directory, version, framework library and ABI flag, one a line."""
    install = _read(Path(directory)) if directory else find()
    if install is None:
        raise FileNotFoundError(f"TensorFlow is not installed in {directory or sys.prefix}")
    check_version(install.version)
    library = framework_library(install)
    print(install.directory, install.version, library, int(uses_cxx11_abi(library)), sep="\n")


if __name__ == "__main__":
    main()
