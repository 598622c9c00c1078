# SPDX-License-Identifier: Apache-2.0
"""Names of ours in messages and docstrings: each is one that a script can write."""

import ast
import dataclasses
import pathlib
import re

import pytest

from sok_compat.deeprec.variables.embedding_variable import EmbeddingVariable
from sok_compat.sparse_operation_kit.core.embedding_variable import EmbeddingVariable as Sok1
from sok_compat.sparse_operation_kit.distributed_variable import DistributedVariable
from sok_compat.tables.table import Table
from tests.support.processes.subprocess_python import run_python

SOURCES = pathlib.Path(__file__).parents[2] / "sok_compat"
NAME = re.compile(r"(?<![\w./-])(?:sok_compat|sparse_operation_kit|sok)(?:\.[A-Za-z]\w*)+")
CALLABLES = ("look_up", "restore", "set_rows", "clip")  # the words that name a function
LABELS = {"sok_compat.exchange", "sok_compat.survivors", "sok_compat.watch"}  # sent between ranks


def kinds_of(names):
    """{name: "callable", "other" or "missing"}, with the imports that the documents use: in a
    process of its own, as an import of sok_compat.deeprec begins TensorFlow 1's behaviour."""
    lines = run_python(f"""
        import pkgutil

        for name in {sorted(names)!r}:
            head, _, rest = name.partition(".")
            module = "sok_compat.sparse_operation_kit" if head == "sok" else head
            try:
                found = pkgutil.resolve_name(module + "." + rest)
                print(name, "callable" if callable(found) else "other")
            except (AttributeError, ImportError):
                print(name, "missing")
    """)
    kinds = dict(line.split() for line in lines.splitlines())
    assert kinds.keys() == set(names)
    return kinds


def test_names_in_strings_exist():
    places = {}
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for name in NAME.findall(node.value):
                    places[name] = f"{path.relative_to(SOURCES)}:{node.lineno}"
    kinds = kinds_of(places)
    assert not {name: places[name] for name in places.keys() - LABELS if kinds[name] == "missing"}


@pytest.mark.parametrize("kind", [Table, Sok1, DistributedVariable, EmbeddingVariable])
def test_words_name_functions(kind):
    words = dataclasses.asdict(kind.words)
    names = [name for word in CALLABLES for name in NAME.findall(words[word])]
    assert len(names) >= 2
    assert set(kinds_of(names).values()) == {"callable"}
