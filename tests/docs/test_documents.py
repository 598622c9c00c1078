# SPDX-License-Identifier: Apache-2.0
"""What the documents show runs, and what they name exists."""

import importlib
import os
import re
import subprocess
import sys

import pytest
from documents import (
    DOCUMENTS,
    ROOT,
    anchors,
    code_words,
    links,
    python_blocks,
    table_rows,
)

README = ROOT / "README.md"
QUICK_START, HASH_TABLE = python_blocks(README)
TIMEOUT_SECONDS = 120  # a loaded machine may take long to import TensorFlow


def run(script, folder):
    """What a Python program prints; it runs in `folder`."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("module", ["sok_compat", "sparse_operation_kit"])
def test_quick_start(module, tmp_path):
    script = QUICK_START.replace("import sok_compat as sok", f"import {module} as sok")
    assert f"import {module} as sok" in script
    losses = re.findall(r"^step \d+: loss (\d\.\d+)$", run(script, tmp_path), re.MULTILINE)
    assert len(losses) == 5
    assert float(losses[0]) == pytest.approx(0.69, abs=0.05)
    assert float(losses[-1]) < 0.1
    names = sorted(path.name for path in (tmp_path / "tables").iterdir())
    assert names == ["EmbeddingVariable_keys.file", "EmbeddingVariable_values.file"]


def test_hash_table(tmp_path):
    script = f"{HASH_TABLE}\nimport sys; print(row_ids.tolist(), rows[0, 0] > 1.9, len(table))"
    script += "; print('tensorflow' in sys.modules)"
    lines = run(script, tmp_path).splitlines()
    assert lines[0].startswith(f"3 [{7:19d} {-1:19d} {2**62:19d}] (2, 4) ")
    assert lines[1:] == ["[0, 1, 2, 0] True 2", "False"]


def test_all_blocks_are_run():
    others = {path: python_blocks(path) for path in DOCUMENTS if path != README}
    assert not any(others.values()), "run these blocks as well, or show them in README.md"


def resolve(name):
    """The object of a dotted name, part modules, part attributes; AttributeError if none."""
    import sok_compat

    found, path = sok_compat, "sok_compat"
    for part in name.split(".")[1:]:
        path = f"{path}.{part}"
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(path)
            except ModuleNotFoundError as error:
                raise AttributeError(path) from error
    return found


def names_in_table():
    """(name, state) of each name of the compatibility table."""
    for names, state, _ in table_rows(README, "name"):
        for name in code_words(names):
            if name.startswith("sok."):
                yield name, state


@pytest.mark.parametrize("name,state", list(names_in_table()))
def test_compatibility_table(name, state):
    if state == "not yet":
        with pytest.raises(AttributeError):
            resolve(name)
    else:
        assert state in ("works", "differs")
        assert resolve(name) is not None


def test_compatibility_table_is_complete():
    import sok_compat

    listed = {name for name, _ in names_in_table()}
    added = {"HashTable", "engine"}  # not of SparseOperationKit; described elsewhere
    assert {f"sok.{name}" for name in sok_compat.__all__ if name not in added} <= listed


def test_folders_exist():
    rows = table_rows(README, "folder")
    assert len(rows) > 5
    for folder, what in rows:
        (folder,) = code_words(folder)
        assert (ROOT / folder).is_dir()
        for part in code_words(what):
            if part.endswith("/"):
                assert (ROOT / folder / part).is_dir(), f"{folder}{part}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_resolve(path):
    for link in links(path):
        target, _, anchor = link.partition("#")
        target = path.parent / target if target else path
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link
