# SPDX-License-Identifier: Apache-2.0
"""What type checkers and editors see: the stubs of modules that load names when they are used."""

import importlib
import os
import subprocess
import sys

import pytest

from docs.generators.stubs import stubs

SCRIPT = """
import distributed_embeddings.python.layers.dist_model_parallel as dmp
import sok_compat as sok
import sok_compat.deeprec as tf
import sparse_operation_kit as kit
from sparse_operation_kit import experiment
from sparse_operation_kit.core.initialize import Init

Init(global_batch_size=8)
kit.All2AllDenseEmbedding(1000, embedding_vec_size=8, slot_num=1, nnz_per_slot=2)
experiment.Variable(name="v")
dmp.DistributedEmbedding([], column_slice_threshold=8)
tf.train.AdagradOptimizer(0.1)
tf.get_embedding_variable("v", 2, initializer=[0.5, 1.5])
kit.DynamicVariable(2, initializer=0.5)
table = sok.HashTable(dim=2, capacity=10)
table.insert([1])
"""
MISTAKES = {  # {a line: what the type checker says of it}
    "table.insrt([1])": 'maybe "insert"?',
    "sok.HashTable(dim=2, capacity='10')": 'incompatible type "str"; expected "int"',
    "kit.All2AllDenseEmbeding": 'maybe "All2AllDenseEmbedding"?',
    "kit.All2AllDenseEmbedding('9', 8, 1, 1)": 'incompatible type "str"; expected "int"',
    "dmp.DistributedEmbedding([], column_slice_threshold='8')": 'incompatible type "str"',
    "tf.get_embedding_variable('v')": 'Missing positional argument "embedding_dim"',
}


@pytest.mark.parametrize("path", stubs(), ids=str)
def test_stubs_are_those_of_the_tables_of_names(path):
    assert path.read_text() == stubs()[path], "run python -m docs.generators.stubs"


@pytest.mark.parametrize("path", [path for path in stubs() if "deeprec" not in str(path)], ids=str)
def test_stubs_list_what_the_module_has(path):
    module = importlib.import_module(".".join(path.parts[path.parts.index("sok_compat") : -1]))
    listed = {line.split()[0] for line in stubs()[path].splitlines() if " as " in line}
    assert listed == set(module.__all__)
    assert all(hasattr(module, name) for name in listed)


def test_mypy_knows_the_names(tmp_path):
    pytest.importorskip("mypy")
    lines = [*SCRIPT.splitlines(), *MISTAKES]
    (tmp_path / "script.py").write_text("\n".join(lines))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "script.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    found = dict(line.removeprefix("script.py:").split(":", 1) for line in done.stdout.splitlines())
    assert found.keys() == {str(lines.index(line) + 1) for line in MISTAKES}, done.stdout
    for line, message in MISTAKES.items():
        assert message in found[str(lines.index(line) + 1)], line
