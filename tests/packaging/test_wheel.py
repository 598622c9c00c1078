# SPDX-License-Identifier: Apache-2.0
"""The wheel holds the package as it is in the repository, the native parts, and nothing else."""

import email
import subprocess
import sys
import zipfile

import pytest

from tests.packaging.environments import REPOSITORY

NATIVE = {
    "sok_compat/runtime/_ops-{tensorflow}.so",
    "sok_compat/runtime/_build_info.py",
    "sok_compat/engine/_engine{suffix}",
}
STARTUP = {"sok_compat.pth", "_sok_compat_imports.py"}
ALIASES = ("sparse_operation_kit", "distributed_embeddings")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps"]
    subprocess.run([*command, "--wheel-dir", directory, REPOSITORY], check=True)
    (path,) = directory.glob("sok_compat-*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def metadata(wheel):
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return email.message_from_bytes(wheel.read(name))


def test_contents(wheel):
    import sysconfig

    import tensorflow as tf

    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    package = REPOSITORY / "sok_compat"
    files = [*package.rglob("*.py"), *package.rglob("*.pyi"), package / "py.typed"]
    sources = {str(path.relative_to(REPOSITORY)): path for path in files}
    native = {name.format(suffix=suffix, tensorflow=tf.__version__) for name in NATIVE}
    if b'HAS_GPU_KERNELS = "ON"' in wheel.read("sok_compat/runtime/_build_info.py"):
        native.add("sok_compat/runtime/libsok_cuda.so")
    types = {
        f"{alias}-stubs/{path.relative_to(package / alias)}i"
        for alias in ALIASES
        for path in (package / alias).rglob("*.py")
    }
    expected = set(sources) | native | STARTUP | types
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == expected
    for name, path in sources.items():
        assert wheel.read(name) == path.read_bytes(), name


def test_extras_fit_the_tensorflow_built_against(wheel):
    import tensorflow as tf

    requirements = metadata(wheel).get_all("Requires-Dist")
    cpu = "tensorflow-cpu" if tf.__version__.startswith("2.15.") else "tensorflow"
    assert f'{cpu}=={tf.__version__}; extra == "cpu"' in requirements
    assert f'tensorflow[and-cuda]=={tf.__version__}; extra == "gpu"' in requirements
    assert not [name for name in requirements if "extra" not in name and "tensorflow" in name]
