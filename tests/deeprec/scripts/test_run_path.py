# SPDX-License-Identifier: Apache-2.0
"""Files that a launched script runs by runpy have the launcher's imports, too."""

import runpy

import pytest

from sok_compat.run.script_modules import read_imports_as_tensorflow_1, read_imports_as_written


@pytest.fixture
def launched():
    read_imports_as_tensorflow_1()
    yield
    read_imports_as_written()


def test_files_that_are_run_by_path(tmp_path, launched):
    for folder in (".", "site-packages"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "part.py").write_text("import tensorflow\nname = __name__\n")
    own = runpy.run_path(str(tmp_path / "part.py"), {"given": 1}, "part")
    assert own["tensorflow"].__name__ == "sok_compat.deeprec"
    assert own["name"] == "part" and own["given"] == 1
    installed = runpy.run_path(str(tmp_path / "site-packages" / "part.py"))
    assert installed["tensorflow"].__name__ == "tensorflow"


def test_it_ends_with_the_launcher(tmp_path):
    (tmp_path / "part.py").write_text("import tensorflow\n")
    before = runpy._get_code_from_file
    read_imports_as_tensorflow_1()
    read_imports_as_written()
    assert runpy._get_code_from_file is before
    assert runpy.run_path(str(tmp_path / "part.py"))["tensorflow"].__name__ == "tensorflow"
