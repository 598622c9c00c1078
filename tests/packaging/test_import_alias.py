# SPDX-License-Identifier: Apache-2.0
"""`import sparse_operation_kit` gives sok_compat's package of that name, in any installation."""

import importlib
import pkgutil
import re

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


def test_missing_submodule_is_reported_under_the_name_asked_for(environment):
    message = environment.run("""
try:
    import sparse_operation_kit.no_such_module
except ModuleNotFoundError as error:
    print(error)
""")
    assert message == "No module named 'sparse_operation_kit.no_such_module'"


def test_real_package_wins_with_all_its_submodules(environment, tmp_path):
    real = {
        "sparse_operation_kit/__init__.py": "IS_REAL = True\n",
        "sparse_operation_kit/own.py": "",
    }
    write_files(tmp_path, real)
    code = """
import sparse_operation_kit, sparse_operation_kit.own, sok_compat
assert sparse_operation_kit.IS_REAL
try:
    import sparse_operation_kit.core
except ModuleNotFoundError as error:
    print(error)
"""
    assert environment.run(code, cwd=tmp_path) == "No module named 'sparse_operation_kit.core'"


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


def test_uninstall_removes_everything(own_environment):
    own_environment.pip("uninstall", "--yes", "sok_compat")
    left = [path for path in own_environment.site_packages.rglob("*sok_compat*") if path.is_file()]
    assert left == []
    assert own_environment.run("import sys; print('_sok_compat_imports' in sys.modules)") == "False"


def test_start_up_costs_less_than_a_millisecond(environment):
    command = """
import re, subprocess, sys
for _ in range(5):
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", ""], stderr=subprocess.PIPE)
    print(re.search(rb"(\\\\d+) \\\\|\\\\s+_sok_compat_imports", done.stderr)[1].decode())
""".replace("\\\\", "\\")
    microseconds = [int(number) for number in re.findall(r"\d+", environment.run(command))]
    assert min(microseconds) < 1000


def test_installed_package_has_every_module_under_the_alias():
    """The package that all other tests run on."""
    face = importlib.import_module(FACE)
    for module in pkgutil.walk_packages(face.__path__, f"{FACE}."):
        alias = module.name.replace(FACE, "sparse_operation_kit", 1)
        assert importlib.import_module(alias) is importlib.import_module(module.name)
