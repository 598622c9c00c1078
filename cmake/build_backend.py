# SPDX-License-Identifier: Apache-2.0
"""PEP 517 backend: scikit-build-core, told which TensorFlow to build against.

The op library must be built against the TensorFlow it will run with. That is the one installed in
the environment; if there is none, the one SOK_BUILD_TENSORFLOW names or the default, which the
build then requires for itself and which the extras of the wheel ask for.
"""

import base64
import hashlib
import os
import sys
import zipfile
from pathlib import Path
from typing import Optional

import tensorflow_install
from scikit_build_core import build as scikit_build
from scikit_build_core.build import (  # noqa: F401  hooks passed on as they are
    build_sdist,
    get_requires_for_build_sdist,
)

VERSION_VARIABLE = "SOK_BUILD_TENSORFLOW"
STARTUP_FILES = Path(__file__).with_name("site")


def get_requires_for_build_wheel(config_settings: Optional[dict] = None) -> list:
    return scikit_build.get_requires_for_build_wheel(config_settings) + _tensorflow_requirement(
        config_settings
    )


def get_requires_for_build_editable(config_settings: Optional[dict] = None) -> list:
    return scikit_build.get_requires_for_build_editable(config_settings) + _tensorflow_requirement(
        config_settings
    )


def prepare_metadata_for_build_wheel(directory, config_settings=None):
    return scikit_build.prepare_metadata_for_build_wheel(directory, _settings(config_settings))


def prepare_metadata_for_build_editable(directory, config_settings=None):
    return scikit_build.prepare_metadata_for_build_editable(directory, _settings(config_settings))


def build_wheel(directory, config_settings=None, metadata_directory=None):
    return scikit_build.build_wheel(directory, _settings(config_settings), metadata_directory)


def build_editable(directory, config_settings=None, metadata_directory=None):
    name = scikit_build.build_editable(directory, _settings(config_settings), metadata_directory)
    _add_startup_files(Path(directory, name))
    return name


def dynamic_metadata(settings, project) -> dict:
    """Extras that install the TensorFlow built against, with Keras 2."""
    version = _tensorflow_version()
    beside = tensorflow_install.companions(version)
    # tf-keras requires `tensorflow` itself, which must not lie over `tensorflow-cpu`; without
    # CUDA libraries it runs on the CPU, too.
    cpu = "tensorflow" if beside else "tensorflow-cpu"
    return {
        "optional-dependencies": {
            "cpu": [f"{cpu}=={version}", *beside],
            "gpu": [f"tensorflow[and-cuda]=={version}", *beside],
        }
    }


def dynamic_wheel(settings) -> dict:
    """The extras of a wheel depend on where it is built; those of the sdist are a default."""
    return {"optional-dependencies": True}


def _asked_version() -> Optional[str]:
    return os.environ.get(VERSION_VARIABLE) or None


def _tensorflow_version() -> str:
    install = tensorflow_install.find(_asked_version())
    version = install.version if install else _asked_version()
    version = version or tensorflow_install.default_version()
    tensorflow_install.check_version(version)
    return version


def _builds_op_library(config_settings: Optional[dict]) -> bool:
    return (config_settings or {}).get("cmake.define.SOK_TENSORFLOW", "ON") != "OFF"


def _tensorflow_requirement(config_settings: Optional[dict]) -> list:
    if not _builds_op_library(config_settings) or tensorflow_install.find(_asked_version()):
        return []
    return [f"tensorflow-cpu=={_tensorflow_version()}"]


def _settings(config_settings: Optional[dict]) -> dict:
    """Adds the TensorFlow to build against, and a build directory of its own for each of them."""
    settings = dict(config_settings or {})
    if _builds_op_library(config_settings):
        directory = _tensorflow_install().directory
        settings.setdefault("cmake.define.SOK_TENSORFLOW_DIR", str(directory))
    settings.setdefault("build-dir", build_directory(config_settings))
    return settings


def build_directory(config_settings: Optional[dict] = None) -> str:
    """Where a wheel is compiled: one for each Python, environment and TensorFlow."""
    kind = "core"
    if _builds_op_library(config_settings):
        kind = f"tensorflow-{_tensorflow_install().version}"
    place = hashlib.sha1(sys.prefix.encode()).hexdigest()[:6]
    return f"build/{sys.implementation.cache_tag}-{kind}-{place}"


def _tensorflow_install() -> tensorflow_install.TensorFlowInstall:
    install = tensorflow_install.find(_asked_version())
    if install is None:
        version = _tensorflow_version()
        raise SystemExit(
            f"TensorFlow {version} is not installed. With --no-build-isolation, install it first: "
            f"pip install tensorflow-cpu=={version}"
        )
    return install


def _add_startup_files(wheel: Path) -> None:
    """Puts the files of cmake/site into an editable wheel, see pyproject.toml."""
    with zipfile.ZipFile(wheel) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    record_name = next(name for name in members if name.endswith(".dist-info/RECORD"))
    record = members.pop(record_name).decode()
    for file in sorted(STARTUP_FILES.glob("*.p*")):
        members[file.name] = content = file.read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        record += f"{file.name},sha256={digest},{len(content)}\n"
    members[record_name] = record.encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


if __name__ == "__main__":
    print(build_directory())
