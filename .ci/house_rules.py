# SPDX-License-Identifier: Apache-2.0
"""Checks what the formatters do not: licence lines, the length of files, functions and text, and
where TensorFlow's private names stand."""

import ast
import re
import subprocess
import sys
from pathlib import Path

CXX_SUFFIXES = {".cc", ".h", ".cu", ".cuh"}
WARN_LINES, MAX_LINES = 400, 600  # of a source file
MAX_FUNCTION_LINES = 60
MAX_COLUMNS = 120  # of a document
CANNOT_BE_BROKEN = re.compile(r"\s*(\||.*\]\(\S+\)[.,;:)]*$|\S*\s*\S*https?://\S+$|\[[^]]+\]: )")
# Who may use private names of other libraries; all else asks the first. The module paths of
# TensorFlow that DeepRec's face mirrors import them.
KNOW_PRIVATE_MEMBERS = (
    *("sok_compat/runtime/tf_versions/", "sok_compat/ranks/horovod/", "sok_compat/ranks/mpi/"),
)
KNOW_PRIVATE_MODULES = (
    *KNOW_PRIVATE_MEMBERS,
    *("sok_compat/deeprec/python/", "sok_compat/deeprec/contrib/", "sok_compat/doctor.py"),
)
OF_NAMED_TUPLES = ("_asdict", "_fields", "_make", "_replace")


def problems(path: Path):
    """Yields (is_error, message)."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if path.suffix == ".md":
        yield from ((True, message) for message in long_text(lines))
        return
    if not any("SPDX-License-Identifier:" in line for line in lines[:2]):
        yield True, "the first line is not an SPDX-License-Identifier"
    if len(lines) > WARN_LINES:
        limit = MAX_LINES if len(lines) > MAX_LINES else WARN_LINES
        yield len(lines) > MAX_LINES, f"{len(lines)} lines, more than {limit}: split it"
    if path.suffix == ".py" and path.parts[0] == "sok_compat":
        yield from ((True, message) for message in private_names(path, "\n".join(lines)))
    functions = python_functions if path.suffix == ".py" else cxx_functions
    for line, name, length in functions("\n".join(lines)):
        if length > MAX_FUNCTION_LINES:
            yield True, f"line {line}: {name} has {length} lines, more than {MAX_FUNCTION_LINES}"


def long_text(lines):
    """Yields a message for each line that is too long and could be broken.

    Code, tables and lines that end in a link cannot be.
    """
    is_code = False
    for number, line in enumerate(lines, 1):
        is_code ^= line.lstrip().startswith("```")
        if len(line) > MAX_COLUMNS and not is_code and not CANNOT_BE_BROKEN.match(line):
            yield f"line {number}: {len(line)} columns, more than {MAX_COLUMNS}: break it"


def private_names(path, source):
    """Yields a message for each private name of another library that a file of the package uses."""
    where, tree = path.as_posix(), ast.parse(source)
    nodes = list(ast.walk(tree))
    own = {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    own |= {node.id for node in nodes if isinstance(node, ast.Name)}
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    of_self = [node for each in classes for node in ast.walk(each) if _is_of_self(node)]
    own |= {node.attr for node in of_self if isinstance(node.ctx, ast.Store)}
    for node in set(nodes).difference(of_self):
        name = _member(node)
        is_private = re.match(r"_(?!.*__$)", name) and name not in (*own, *OF_NAMED_TUPLES)
        if is_private and not where.startswith(KNOW_PRIVATE_MEMBERS):
            yield f"line {node.lineno}: {name} of another library: only runtime/tf_versions has it"
        module = node.module if isinstance(node, ast.ImportFrom) else None
        is_private = module and module.startswith(("tensorflow.python", "tensorflow._api"))
        if is_private and not where.startswith(KNOW_PRIVATE_MODULES):
            yield f"line {node.lineno}: import {module} in runtime/tf_versions only"


def _is_of_self(node):
    """Whether it is a member that an object of a class of ours may have from its base."""
    owner = node.value if isinstance(node, ast.Attribute) else None
    if isinstance(owner, ast.Call):
        return getattr(owner.func, "id", None) == "super"
    return isinstance(owner, ast.Name) and owner.id in ("self", "cls")


def _member(node):
    """The name of an object's member that an expression reads or sets, else ''."""
    if isinstance(node, ast.Attribute):
        return node.attr
    function = getattr(node.func, "id", None) if isinstance(node, ast.Call) else None
    name = node.args[1] if function in ("getattr", "hasattr", "setattr", "delattr") else None
    return name.value if isinstance(name, ast.Constant) else ""


def python_functions(source):
    """Yields (line, name, lines) of each function, its decorators and docstring included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(line.lineno for line in node.decorator_list)])
            yield first, node.name, node.end_lineno - first + 1


# What may hold braces that are none: comments, strings, characters (not the ' in 1'000).
NOT_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)'(?:\\.|[^'\\\n])+'""",
    re.DOTALL,
)
NO_BODY = re.compile(r"\b(namespace|struct|class|union|enum)\b[^()]*$|\bextern\s*$")
INITIALIZER = re.compile(
    r"([\w>\]]|[(,=]\s*|\breturn\s*)$"
)  # before its brace, as clang-format writes


def cxx_functions(source):
    """Yields (line, name, lines) of each function; what is defined within one is a part of it."""
    code = NOT_CODE.sub(_blank, source)
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", _blank, code, flags=re.MULTILINE)
    begin, opened, kind = 0, [], ""  # of what is open: the kinds
    for match in re.finditer(r"[;{}]", code):
        head = code[begin : match.start()]
        if match[0] == "{":
            kind = _kind(head, opened)
            opened.append(kind)
            if kind == "function":
                begin_of_function = begin + len(head) - len(head.lstrip())
                name = _name(head)
        elif match[0] == "}":
            kind = opened.pop() if opened else "scope"
            if kind == "function":
                line = code.count("\n", 0, begin_of_function) + 1
                yield line, name, code.count("\n", begin_of_function, match.start()) + 1
        if "initializer" not in (kind, *opened):
            begin = match.end()
        kind = ""


def _kind(head, opened):
    if "function" in opened:
        return "within a function"
    if INITIALIZER.search(head):
        return "initializer"
    return "function" if "(" in head and not NO_BODY.search(head) else "scope"


def _name(head):
    names = re.findall(r"([~\w:]+)\s*\(", head)
    return names[0] if names else "a function"


def _blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def checked_files():
    """Files that git knows or would add; outside a repository, all of them."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=False,
    )
    names = listing.stdout.splitlines() if listing.returncode == 0 else None
    if names is None:
        folders = ("ops", "sok_compat", "tests", "examples", "benchmarks", "cmake", "docs", ".ci")
        found = [path for folder in folders for path in Path(folder).rglob("*")]
        names = [str(path) for path in [*found, *Path().glob("*.md")]]
    suffixes = {".py", ".md", *CXX_SUFFIXES}
    paths = sorted({Path(name) for name in names if Path(name).suffix in suffixes})
    return [path for path in paths if path.is_file() and path.stat().st_size > 0]


def main() -> None:
    num_errors = 0
    for path in checked_files():
        for is_error, message in problems(path):
            num_errors += is_error
            print(f"{path}: {'error' if is_error else 'warning'}: {message}")
    sys.exit(num_errors > 0)


if __name__ == "__main__":
    main()
