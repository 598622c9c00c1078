# SPDX-License-Identifier: Apache-2.0
"""`import sparse_operation_kit`, or `distributed_embeddings`, gives sok_compat's package of that
name, in any installation."""

import importlib
import pkgutil

import pytest

from tests.packaging.environments import write_files

FACE = "sok_compat.sparse_operation_kit"
SUBMODULES = ["", ".core.initialize", ".saver.Saver", ".tf.keras.optimizers.lazy_adam"]


@pytest.mark.parametrize("first", [FACE, "sparse_operation_kit"])
def test_alias_is_the_same_module(environment, first):
    environment.run(f"""
import importlib
for name in {SUBMODULES}:
    importlib.import_module("{first}" + name)
for name in {SUBMODULES}:
    real = importlib.import_module("{FACE}" + name)
    assert importlib.import_module("sparse_operation_kit" + name) is real
    assert real.__name__ == real.__spec__.name == "{FACE}" + name, real.__spec__
    assert real.__spec__.loader is real.__loader__
""")


def test_every_form_of_import_works(environment):
    environment.run(f"""
import sparse_operation_kit as sok
import sparse_operation_kit.tf.keras.optimizers.lazy_adam as lazy_adam
from sparse_operation_kit import core
from sparse_operation_kit.core.initialize import Init
from sparse_operation_kit.saver import Saver as from_package
from sparse_operation_kit.saver.Saver import Saver
import {FACE}.core.initialize as real
from sok_compat import sparse_operation_kit as face
assert sok is face and core is face.core
assert lazy_adam.LazyAdamOptimizer.__module__ == "{FACE}.tf.keras.optimizers.lazy_adam"
assert Init is real.Init
assert from_package is Saver
""")


def test_find_spec_reload_and_pickle_behave(environment):
    environment.run(f"""
import importlib, importlib.util, pickle, sys
spec = importlib.util.find_spec("sparse_operation_kit")
assert spec.name == "sparse_operation_kit"
assert spec.origin.endswith("sok_compat/sparse_operation_kit/__init__.py")
assert "sok_compat" not in sys.modules
assert importlib.util.find_spec("sparse_operation_kit.core.initialize") is not None
assert importlib.util.find_spec("sparse_operation_kit.missing") is None

import sparse_operation_kit.core.initialize as module
assert importlib.reload(module) is module is sys.modules["{FACE}.core.initialize"]
assert pickle.loads(pickle.dumps(module.Init)) is module.Init
old_pickle = b"csparse_operation_kit.core.initialize\\nInit\\n."
assert pickle.loads(old_pickle) is module.Init
""")


def test_other_face_has_its_alias_too(environment, tmp_path):
    code = """
import distributed_embeddings.version, sok_compat.distributed_embeddings as face
assert distributed_embeddings is face and distributed_embeddings.version is face.version
"""
    environment.run(code)
    write_files(tmp_path, {"distributed_embeddings/__init__.py": "IS_REAL = True\n"})
    environment.run(code, cwd=tmp_path)  # with a word on what was passed over
    write_files(tmp_path, {"distributed_embeddings/python/ops/_embedding_lookup_ops.so": ""})
    code = "import distributed_embeddings; assert distributed_embeddings.IS_REAL"
    environment.run(code, cwd=tmp_path)


def test_missing_submodule_is_reported_under_the_name_asked_for(environment):
    message = environment.run("""
try:
    import sparse_operation_kit.no_such_module
except ModuleNotFoundError as error:
    print(error)
""")
    assert message == "No module named 'sparse_operation_kit.no_such_module'"


REAL = {
    "sparse_operation_kit/__init__.py": "IS_REAL = True\n",
    "sparse_operation_kit/own.py": "",
}


@pytest.mark.parametrize(
    "library",
    [
        "sparse_operation_kit/lib/libsparse_operation_kit.so",
        "sparse_operation_kit/deep/down/ops.so",
        "lib/libsparse_operation_kit.so",
    ],
)
def test_built_real_package_wins_with_all_its_submodules(environment, tmp_path, library):
    write_files(tmp_path, {**REAL, library: ""})
    code = """
import sparse_operation_kit, sparse_operation_kit.own, sok_compat
assert sparse_operation_kit.IS_REAL
try:
    import sparse_operation_kit.core
except ModuleNotFoundError as error:
    print(error)
"""
    assert environment.run(code, cwd=tmp_path) == "No module named 'sparse_operation_kit.core'"


LOGGED = f"""
import logging, sys
logging.basicConfig(stream=sys.stdout, format="%(name)s %(levelname)s %(message)s")
import sparse_operation_kit, {FACE}
import sparse_operation_kit.core
assert sparse_operation_kit is {FACE}
"""


def test_real_package_that_was_not_built_is_passed_over_with_a_word(environment, tmp_path):
    """The sources of SparseOperationKit: where the script stands, or on sys.path."""
    write_files(tmp_path, {**REAL, "lib/other.so": ""})
    printed = environment.run(LOGGED, cwd=tmp_path)
    assert printed.splitlines() == [
        f"sok_compat WARNING import sparse_operation_kit gives {FACE}; passed over, because not "
        f"built (no native libraries): {tmp_path / 'sparse_operation_kit'}"
    ]
    appended = f"import sys; sys.path.append({str(tmp_path)!r})" + LOGGED
    assert environment.run(appended) == printed
    code = "import sok_compat, importlib.util; importlib.util.find_spec('sparse_operation_kit')"
    assert environment.run(code, cwd=tmp_path) == ""


def test_built_one_wins_behind_one_that_was_not(environment, tmp_path):
    write_files(tmp_path / "clone", REAL)
    built = {"sparse_operation_kit/__init__.py": "", "sparse_operation_kit/native.so": ""}
    write_files(tmp_path / "installed", built)
    code = f"""
import sys
sys.path.append({str(tmp_path / "installed")!r})
import sparse_operation_kit
print(sparse_operation_kit.__file__)
"""
    expected = tmp_path / "installed" / "sparse_operation_kit" / "__init__.py"
    assert environment.run(code, cwd=tmp_path / "clone") == str(expected)


def test_directory_of_that_name_is_no_real_package(environment, tmp_path):
    (tmp_path / "sparse_operation_kit").mkdir()
    code = f"import sparse_operation_kit.core as core, {FACE}; assert core is {FACE}.core"
    environment.run(code, cwd=tmp_path)


def test_source_tree_in_the_current_directory_does_not_hide_the_package(environment, tmp_path):
    write_files(tmp_path, {"sok_compat/__init__.py": "raise ImportError('not built')\n"})
    environment.run(f"import {FACE}.core.initialize, sparse_operation_kit", cwd=tmp_path)


def test_built_package_earlier_on_the_path_wins(environment, tmp_path):
    built = {"sok_compat/__init__.py": "ELSEWHERE = 1\n", "sok_compat/runtime/_build_info.py": ""}
    write_files(tmp_path, built)
    code = "import sok_compat; print(hasattr(sok_compat, 'ELSEWHERE'))"
    is_editable = any(environment.site_packages.glob("_editable_*"))
    assert environment.run(code, cwd=tmp_path) == str(not is_editable)


@pytest.mark.thorough
@pytest.mark.parametrize("missing", ["package", "startup module"])
def test_interpreter_starts_without_a_word_when_files_are_missing(own_environment, missing):
    name = "sok_compat/__init__.py" if missing == "package" else "_sok_compat_imports.py"
    (own_environment.site_packages / name).unlink(missing_ok=True)
    if missing == "package":
        for path in own_environment.site_packages.glob("_editable_*"):
            path.unlink()
    code = """
try:
    import sparse_operation_kit
except ModuleNotFoundError as error:
    print(error.name)
"""
    assert own_environment.run(code) == "sparse_operation_kit"


def test_failing_package_fails_only_when_imported(own_environment, stub_project):
    installed = own_environment.site_packages / "sok_compat" / "__init__.py"
    initializer = installed if installed.exists() else stub_project / "sok_compat" / "__init__.py"
    initializer.write_text("raise ImportError('TensorFlow is missing')\n")
    try:
        code = """
try:
    import sparse_operation_kit
except ImportError as error:
    print(error)
"""
        assert own_environment.run(code) == "TensorFlow is missing"
    finally:
        initializer.write_text("")


@pytest.mark.thorough
def test_uninstall_removes_everything(own_environment):
    own_environment.pip("uninstall", "--yes", "sok_compat")
    left = [path for path in own_environment.site_packages.rglob("*sok_compat*") if path.is_file()]
    assert left == []
    assert own_environment.run("import sys; print('_sok_compat_imports' in sys.modules)") == "False"


def test_start_up_costs_less_than_a_third_of_what_os_takes(environment):
    command = """
import re, subprocess, sys
for _ in range(5):
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", ""], stderr=subprocess.PIPE)
    for name in (b"os", b"_sok_compat_imports"):
        line = rb"(\\d+) +\\| +(\\d+) \\| +" + name + rb"\\b"
        print(*map(int, re.search(line, done.stderr).groups()), end=" ")
    print()
"""
    runs = [
        [int(number) for number in line.split()] for line in environment.run(command).splitlines()
    ]
    assert all(alone == with_imports for _, _, alone, with_imports in runs)  # it imports nothing
    assert min(ours / of_os for _, of_os, ours, _ in runs) < 1 / 3


def test_installed_package_has_every_module_under_the_alias():
    """The package that all other tests run on."""
    for face in (FACE, "sok_compat.distributed_embeddings"):
        for module in pkgutil.walk_packages(importlib.import_module(face).__path__, f"{face}."):
            alias = module.name.partition(".")[2]
            assert importlib.import_module(alias) is importlib.import_module(module.name)
