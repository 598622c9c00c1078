# SPDX-License-Identifier: Apache-2.0
"""The op libraries in this installation, one for each TensorFlow they were built for."""

from __future__ import annotations

from pathlib import Path

MINORS = (15, 21)  # first and last TensorFlow 2.x to build for, as in cmake/tensorflow_install.py
BUILD_AGAIN = (
    "pip install --force-reinstall --no-deps --no-cache-dir --no-binary sok_compat sok_compat (or, "
    "in a checkout, pip install --no-deps .)"
)


def built_libraries() -> dict[str, Path]:
    """Returns {release of TensorFlow: path}; empty if sok_compat was built without TensorFlow."""
    try:
        from sok_compat.runtime import _build_info
    except ImportError:
        return {}
    return dict(_build_info.OPS_LIBRARIES)


def library_for(version: str) -> Path:
    """Returns the op library for a release of TensorFlow.

    Patch releases, such as 2.15.0 and 2.15.1, share one: TensorFlow's binary interface is the same.

    Raises:
      ImportError: there is none.
    """
    libraries = built_libraries()
    if not libraries:
        raise ImportError(
            "this sok_compat was built without its TensorFlow op library (SOK_TENSORFLOW=OFF); "
            "only sok_compat.HashTable works. Install TensorFlow, then sok_compat again."
        )
    for built_for, path in libraries.items():
        if _minor(built_for) == _minor(version):
            return path
    releases = ", ".join(sorted(libraries, key=_numbers))
    first, last = MINORS
    ways_out = "Install one of these"
    if [2, first] <= _numbers(version)[:2] <= [2, last]:
        ways_out += f", or build sok_compat for this one: {BUILD_AGAIN}"
    else:
        ways_out += f": sok_compat cannot be built for others than 2.{first} to 2.{last}"
    raise ImportError(
        f"sok_compat has op libraries for TensorFlow {releases}, but {version} is installed. "
        f"{ways_out}"
    )


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]
