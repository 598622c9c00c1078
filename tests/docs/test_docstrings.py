# SPDX-License-Identifier: Apache-2.0
"""Docstrings of public names: whose API a name is, each argument with its unit, what is returned,
shapes and errors."""

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
QUANTITIES = re.compile(
    r"(?:^|_)(?:capacity|secs|seconds|bytes|freq|threshold|\w*steps|\w*size)(?:_|$)"
)
UNITS = re.compile(
    r"rows|keys|samples|floats|elements|batches|columns|ranks|ids|seconds|bytes|steps|times|norm|"
    r"datetime|ignored|\bas (a|for|there)\b"
)
TENSORS = re.compile(r"\b(tf\.\w*Tensor|np\.ndarray)\b")
SHAPES = re.compile(r"\[[^]]*\]|\b(shapes?|scalars?|vectors?|rows|copy of|values? of|As)\b")
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


PLACES = pytest.mark.parametrize("place", HOMES, ids=HOMES.values())


def arguments(node):
    """{argument of a function: what its docstring says of it}."""
    found, heads = {}, []
    for line in "".join(ARGS.findall(ast.get_docstring(node) + "\n")).splitlines():
        if head := HEADS.match(line):
            heads = re.findall(r"\w+", head[1])
            line = line[head.end() :]
        for name in heads:
            found[name] = f"{found.get(name, '')} {line.strip()}"
    return found


@PLACES
def test_errors_shapes_and_units(place):
    node = node_of(*place)
    function = called(node)
    if function is None:
        return
    text = f"{ast.get_docstring(node)}\n{ast.get_docstring(function)}"
    if any(isinstance(each, ast.Raise) for each in ast.walk(function)):
        assert re.search("raises", text, re.IGNORECASE), "say which errors it raises"
    types = [each.annotation for each in ast.walk(function.args) if isinstance(each, ast.arg)]
    types = " ".join(ast.unparse(each) for each in (*types, function.returns) if each)
    assert not TENSORS.search(types) or SHAPES.search(text), "say the shapes of tensors"
    for name, said in arguments(function).items() if ast.get_docstring(function) else ():
        assert not QUANTITIES.search(name) or UNITS.search(said), f"say the unit of {name}: {said}"


@PLACES
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
