# SPDX-License-Identifier: Apache-2.0
"""Names of ours in messages and docstrings: each is one that a script can write."""

import ast
import dataclasses
import pathlib
import pkgutil
import re

import pytest

from sok_compat.deeprec.variables.embedding_variable import EmbeddingVariable
from sok_compat.sparse_operation_kit.core.embedding_variable import EmbeddingVariable as Sok1
from sok_compat.sparse_operation_kit.distributed_variable import DistributedVariable
from sok_compat.tables.table import Table

SOURCES = pathlib.Path(__file__).parents[2] / "sok_compat"
NAME = re.compile(r"(?<![\w./-])(?:sok_compat|sparse_operation_kit|sok)(?:\.[A-Za-z]\w*)+")
CALLABLES = ("look_up", "restore", "set_rows", "clip")  # the words that name a function
LABELS = {"sok_compat.exchange", "sok_compat.survivors", "sok_compat.watch"}  # sent between ranks


def resolved(name):
    """What a name stands for, with the imports that the documents use."""
    head, _, rest = name.partition(".")
    module = "sok_compat.sparse_operation_kit" if head == "sok" else head
    return pkgutil.resolve_name(f"{module}.{rest}")


def test_names_in_strings_exist():
    missing = set()
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for name in NAME.findall(node.value):
                    try:
                        resolved(name)
                    except (AttributeError, ImportError):
                        missing.add(f"{path.relative_to(SOURCES)}:{node.lineno}: {name}")
    assert not {place for place in missing if place.split(": ")[1] not in LABELS}


@pytest.mark.parametrize("kind", [Table, Sok1, DistributedVariable, EmbeddingVariable])
def test_words_name_functions(kind):
    words = dataclasses.asdict(kind.words)
    names = [name for word in CALLABLES for name in NAME.findall(words[word])]
    assert len(names) >= 2
    for name in names:
        assert callable(resolved(name)), name
