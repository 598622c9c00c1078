# SPDX-License-Identifier: Apache-2.0
"""What the checker of house rules finds, and what it leaves alone."""

import importlib.util
from pathlib import Path

import pytest

CHECKER = Path(__file__).parents[2] / ".ci" / "house_rules.py"
LICENCE = "SPDX-License-Identifier: Apache-2.0"
LONG = "word " * 25


@pytest.fixture(scope="module")
def rules():
    spec = importlib.util.spec_from_file_location("house_rules", CHECKER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def errors(rules, tmp_path):
    """The errors of a file of this name and text."""

    def check(name, text):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return [message for is_error, message in rules.problems(path) if is_error]

    return check


@pytest.mark.parametrize("text, is_right", [
    (LONG, False),
    (f"- {LONG}", False),
    (f"| {LONG} | a table |", True),
    (f"```\n{LONG}\n```\n", True),
    (f"```\n```\n{LONG}", False),
    (f"[a link]: https://example.org/{'x' * 120}", True),
    (f"see https://example.org/{'x' * 120}", True),
    (f"{LONG} https://example.org and more", False),
    (f"see [a link](https://example.org/{'x' * 120}).", True),
    (f"{LONG} [a link](page.md) and more", False),
    ("x" * 120, True),
])  # fmt: skip
def test_lines_of_documents(errors, text, is_right):
    assert bool(errors("page.md", text)) != is_right


def test_the_licence(errors):
    assert errors("a.py", "x = 1\n") == ["the first line is not an SPDX-License-Identifier"]
    assert not errors("a.cc", f"// {LICENCE}\nint x;\n")


@pytest.mark.parametrize("line, is_right", [
    ("found = hook._saver", False),
    ("found = getattr(hook, '_saver', None)", False),
    ("found = hook.saver._replace(a=1)", True),
    ("found = hook.__dict__", True),
    ("_saver = 1; found = module._saver", True),
    ("class Mine(Theirs):\n    def run(self): return self._saver, super()._saver", True),
    ("def run(self): return self._saver", False),
    ("from tensorflow.python.ops import state_ops", False),
    ("from tensorflow.compat import v1", True),
])  # fmt: skip
def test_private_names_of_other_libraries(rules, line, is_right):
    folder = Path("sok_compat")
    assert bool(list(rules.private_names(folder / "a.py", line))) != is_right
    assert not list(rules.private_names(folder / "runtime/tf_versions/members.py", line))


def test_the_length_of_a_file(errors):
    assert "601 lines" in errors("a.py", f"# {LICENCE}\n" + "x = 1\n" * 600)[0]
    assert not errors("a.py", f"# {LICENCE}\n" + "x = 1\n" * 500)


@pytest.mark.parametrize("num_lines, num_errors", [(60, 0), (61, 1)])
def test_the_length_of_a_python_function(errors, num_lines, num_errors):
    body = '    """Text."""\n' + "    x = 1\n" * (num_lines - 3)
    found = errors("a.py", f"# {LICENCE}\n\n\n@decorated\ndef long():\n{body}")
    assert len(found) == num_errors
    assert not found or f"line 4: long has {num_lines} lines, more than 60" in found[0]


@pytest.mark.parametrize("num_lines, num_errors", [(60, 0), (61, 1)])
def test_the_length_of_a_cxx_function(errors, num_lines, num_errors):
    body = "  x();  // }\n" * (num_lines - 3)
    source = (
        f"namespace a {{\n\ntemplate <typename T>\nvoid Long(T x) {{\n{body}}}\n}}  // namespace\n"
    )
    found = errors("a.cc", f"// {LICENCE}\n{source}")
    assert len(found) == num_errors
    assert not found or f"line 4: Long has {num_lines} lines, more than 60" in found[0]


CXX = r"""
#define MACRO(x) { \
  x
namespace a {
struct Point final : public Base {
  Point() : x_{1}, y_{Make({2})} {
    Do();
  }
  int x() const { return x_; }
  std::vector<int> z_{1, 2};
};
enum Kind { kOne };
const int kTable[] = {1, 2};
/* { */
int Odd(const char* a, struct Point* b) {
  const auto inner = [&](int x) { return x; };
  const char* braces = "}{\"}";
  const char* raw = R"(}})";
  const int number = 1'000 + '{' + '\'';
  if (a) { Do(); }
}
}  // namespace a
extern "C" {
void Last() {}
}
"""


def test_what_counts_as_a_function(rules):
    assert list(rules.cxx_functions(CXX)) == [
        (6, "Point", 3), (9, "x", 1), (15, "Odd", 7), (24, "Last", 1)
    ]  # fmt: skip
