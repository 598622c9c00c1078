# SPDX-License-Identifier: Apache-2.0
"""The notebooks run from top to bottom, and print what they show."""

import json
import re
from pathlib import Path

import pytest

from tests.support.processes.subprocess_python import run_python

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))
# Of each: something that it prints, and the same in its stored output.
PRINTED = {
    "plans_of_distributed_embeddings": r"strategy 'auto', 4 ranks",
    "port_a_sok_script": r"step 400: loss 0\.0",
    "ranks_in_a_notebook": r"rank 1 of 2 has \d+ keys; loss 1\.60757",
    "tables_of_deeprec": r"99 users, 240 to 338",
    "train_and_serve": r"{'predictions': \[1\.0, 0\.002, 0\.5\]}",
}


def cells(path, kind):
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == kind]


def shown(path):
    """What the notebook's stored outputs show."""
    outputs = [output for cell in cells(path, "code") for output in cell["outputs"]]
    return "".join("".join(output.get("text", "")) for output in outputs)


def program(lines):
    """What a cell does, without the words that only notebooks know."""
    first, *others = lines
    if first.startswith("%%writefile "):
        return f"open({first.split()[1]!r}, 'w').write({''.join(others)!r})"
    return "".join(line for line in lines if not line.startswith("%"))


def test_all_notebooks_are_run():
    assert [path.stem for path in NOTEBOOKS] == sorted(PRINTED)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_need_no_scrolling(path):
    assert max(map(len, shown(path).splitlines()), default=0) <= 120


@pytest.mark.thorough
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs(tmp_path, path):
    pytest.importorskip("matplotlib")
    code = "\n".join(program(cell["source"]) for cell in cells(path, "code"))
    code = code.replace("from IPython.display import SVG", "SVG = open")
    printed = run_python(f"import os; os.chdir({str(tmp_path)!r})\n{code}", is_fresh=True)
    for text in (printed, shown(path)):
        assert re.search(PRINTED[path.stem], text), text
        assert "Traceback" not in text
    assert str(Path.home()) not in path.read_text()
