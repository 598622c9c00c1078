# SPDX-License-Identifier: Apache-2.0
"""Docstrings of public names: whose API a name is, each argument, and what is returned."""

import ast
import re

import pytest

from docs.generators.homes import home, node_of
from docs.generators.reference import REFERENCES

ORIGIN = re.compile(
    r"API( and file format)? of (SparseOperationKit (1\.x|2)|DeepRec|distributed-embeddings|"
    r"TensorFlow 1)\b|Added by sok_compat\."
)
ARGS = re.compile(r"^ *Args:\n((?: +\S.*\n|\n)*)", re.MULTILINE)
HEADS = re.compile(r"^ +(\*{0,2}\w+(?:,\s+\*{0,2}\w+)*): ", re.MULTILINE)
HOMES = {
    found: name
    for reference in REFERENCES.values()
    for section in reference.sections.values()
    for entry in section
    if entry.state != "refused"
    for name in entry.shown_names
    if (found := home(name))
}


def called(node):
    """What runs when the name is called; None for a class without an `__init__` of its own."""
    if isinstance(node, ast.FunctionDef):
        return node
    inits = [each for each in node.body if getattr(each, "name", None) == "__init__"]
    return inits[0] if inits else None


@pytest.mark.parametrize("place", HOMES, ids=HOMES.values())
def test_docstring_of_a_public_name(place):
    node = node_of(*place)
    text = " ".join(ast.get_docstring(node).split())
    assert ORIGIN.search(text), "say whose API it is, or 'Added by sok_compat.'"
    function = called(node)
    if function is None:
        return
    of_call = ast.get_docstring(function) or ""
    args = function.args
    names = [each.arg for each in args.posonlyargs + args.args + args.kwonlyargs]
    names += [each.arg for each in (args.vararg, args.kwarg) if each]
    if not re.search(r"other\s+arguments\s+(are|except)", of_call, re.IGNORECASE):
        lines = " ".join(ARGS.findall(of_call + "\n"))
        described = {word for heads in HEADS.findall(lines) for word in re.findall(r"\w+", heads)}
        assert set(names) - described <= {"self"}
    returned = function.returns
    if returned is not None and ast.unparse(returned) not in ("None", "tf.Operation | None"):
        assert re.search(r"\bReturns\b|^(As|The|An?) |\bYields\b", of_call), "say what it returns"
