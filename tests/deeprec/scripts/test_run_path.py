# SPDX-License-Identifier: Apache-2.0
"""Files that a launched script runs by runpy have the launcher's imports, too."""

from tests.support.processes.subprocess_python import run_python


def test_files_that_are_run_by_path(tmp_path):
    """In a process of its own: the imports turn on the behaviour of TensorFlow 1."""
    for folder in (".", "site-packages"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "part.py").write_text("import tensorflow\nname = __name__\n")
    run_python(f"""
        import runpy
        from sok_compat.run import script_modules

        own, installed = (f"{tmp_path}/{{folder}}part.py" for folder in ("", "site-packages/"))
        as_written = runpy._get_code_from_file
        script_modules.read_imports_as_tensorflow_1()
        found = runpy.run_path(own, {{"given": 1}}, "part")
        assert found["tensorflow"].__name__ == "sok_compat.deeprec"
        assert found["name"] == "part" and found["given"] == 1
        assert runpy.run_path(installed)["tensorflow"].__name__ == "tensorflow"
        script_modules.read_imports_as_written()
        assert runpy._get_code_from_file is as_written
        assert runpy.run_path(own)["tensorflow"].__name__ == "tensorflow"
    """)
