# SPDX-License-Identifier: Apache-2.0
"""The documentation site: its navigation, its links, its reference. `make docs` builds it."""

import functools
import importlib
import json

import pytest
import yaml
from documents import DOCUMENTS, ROOT, python_blocks

from docs.generators.homes import home
from docs.generators.reference import REFERENCES, page, write_modules
from docs.site.home import first_screen
from docs.site.html import as_text, dead_links, loaded_from_elsewhere, raw_markup
from docs.site.outside import documents, linked, with_tabs
from tests.support.processes.subprocess_python import run_python

CONFIG = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader=yaml.BaseLoader)
HOMES = {
    name: home(name)
    for reference in REFERENCES.values()
    for section in reference.sections.values()
    for entry in section
    if entry.state != "refused"
    for name in entry.shown_names
}


def pages_of(navigation):
    """The pages of a part of the navigation, in order."""
    if isinstance(navigation, str):
        return [navigation]
    parts = navigation.values() if isinstance(navigation, dict) else navigation
    return [name for part in parts for name in pages_of(part)]


def test_each_document_is_in_the_navigation():
    """The build adds the records of decisions, and fails for one that it does not find."""
    expected = {*documents(), *(f"reference/{name}.md" for name in REFERENCES)}
    for path in (ROOT / "docs").rglob("*.md"):
        name = str(path.relative_to(ROOT / "docs"))
        if not name.startswith(("decisions/", "site/")):
            expected.add(name)
    pages = pages_of(CONFIG["nav"])
    assert len(pages) == len(set(pages))
    assert set(pages) == {*expected, "decisions/index.md"}


def test_each_document_of_the_repository_is_a_page():
    outside = {path for path in DOCUMENTS if ROOT / "docs" not in path.parents} | {
        *(ROOT / "examples" / "notebooks").glob("*.ipynb")
    }
    assert outside == {ROOT / path for path in documents().values()} | {ROOT / "README.md"}


@pytest.mark.parametrize("page, text, expected", [
    ("use/quick_start.md", "[a](install.md#horovod)", "[a](install.md#horovod)"),
    ("use/quick_start.md", "[a](../../examples/dlrm)", "[a](../examples/dlrm.md)"),
    ("use/quick_start.md", "[a](https://example.org/a.md)", "[a](https://example.org/a.md)"),
    ("use/quick_start.md", "```\n[a](../../examples/dlrm)\n```", None),
    ("index.md", "[a](../CONTRIBUTING.md#style)", "[a](contribute/contributing.md#style)"),
    ("contribute/contributing.md", "[a](docs/use/install.md)", "[a](../use/install.md)"),
    ("benchmarks/history/index.md", "[a](../RESULTS.md)", "[a](../results.md)"),
    ("examples/dlrm.md", "[a](../../docs/use/distributed.md)", "[a](../use/distributed.md)"),
    ("use/quick_start.md", "[a](../../ops/base)", "a"),
    ("examples/notebooks.md", "[a](train_and_serve.ipynb)", "[a](train_and_serve.md)"),
    ("use/quick_start.md", "[a](../../missing.md)", None),  # the build fails
])  # fmt: skip
def test_links_lead_to_pages(page, text, expected):
    assert linked(text, page) == (expected or text)


def test_the_first_screen_is_the_readme():
    shown = first_screen()
    (example,) = python_blocks(ROOT / "README.md")
    assert f"```python\n{example}```" in shown
    assert "```\npip install '.[cpu]'\n```" in shown
    assert "](pictures/speed.svg)" in shown
    assert "](use/modelzoo.md#speed)" in shown


@pytest.mark.parametrize("html, expected", [
    ('<script src="https://example.org/a.js">', ["https://example.org/a.js"]),
    ('<link rel="stylesheet" href="//example.org/a.css">', ["//example.org/a.css"]),
    ('<a href="https://example.org"><img src="a.svg">', []),
])  # fmt: skip
def test_what_a_page_loads_from_elsewhere(html, expected):
    assert loaded_from_elsewhere(html) == expected


def test_dead_links(tmp_path):
    page = tmp_path / "page.html"
    page.write_text('<a href="b.html#c"><a href="page.html#d"><img src="e.svg"><a href="mailto:f">')
    assert dead_links(page) == ["b.html", "e.svg"]


@pytest.mark.parametrize("html, expected", [
    ("<p>see [a](b.md)</p>", ["](b.md)"]),
    ("<p>::: sok.Init</p><p>a **b</p>", [":::", "**b"]),
    ("<p>\n=== \"Tab\"</p>", ["=== "]),
    ("<pre><code>**options, [a](b)</code></pre><p>a: b = c[0] (d) * 2**3</p>", []),
    ("<p>a <em>b</em> <a href='c'>[d]</a></p>", []),
])  # fmt: skip
def test_raw_markup(html, expected):
    assert raw_markup(html) == expected


def test_a_diff_has_tabs_without_signs():
    text = with_tabs("a\n\n```diff\n-old\n+new\n\n same\n```\n\nb")
    assert text.count("=== ") == 3
    assert "    ```python\n    old\n    \n    same\n    ```" in text
    assert "    ```python\n    new\n    \n    same\n    ```" in text
    assert with_tabs("```python\n-1\n```") == "```python\n-1\n```"


@pytest.mark.parametrize("docstring, expected", [
    ("'cuda:<number>'", "'cuda:&lt;number>'"),
    ("`<name>.dump` or <name>", "`<name>.dump` or &lt;name>"),
    ("```\na <b\n```", "```\na <b\n```"),
    ("a < b", "a < b"),
    ("its __init__ or `__call__`", r"its \_\_init\_\_ or `__call__`"),
])  # fmt: skip
def test_names_in_docstrings_are_no_markup(docstring, expected):
    assert as_text(docstring) == expected


@pytest.mark.parametrize("reference", REFERENCES.values(), ids=REFERENCES)
def test_each_public_name_has_an_entry(reference):
    """tests of the pages of names show that their tables have all public names."""
    text = page(reference)
    names = {name for section in reference.sections.values() for e in section for name in e.names}
    shown = {name for name in HOMES if name in names}
    assert len(shown) > 10
    assert [n for n in shown if f"::: {n}\n" not in text and f"`{n}`" not in text] == []


def test_most_names_are_shown_with_their_docstring():
    """Others are modules, constants, and what is made when DeepRec's face is first used."""
    without = {name for name, found in HOMES.items() if not found}
    assert len(HOMES) - len(without) > 120
    assert not {name for name in without if name.rpartition(".")[2].startswith("Embedding")}


def reached(root, path):
    """What attributes of a module lead to, or the import of a path."""
    try:
        return functools.reduce(getattr, path.split("."), root)
    except AttributeError:
        module, _, last = f"{root.__name__}.{path}".rpartition(".")
        return getattr(importlib.import_module(module), last)


@pytest.mark.parametrize("face", ["sparse_operation_kit", "distributed_embeddings"])
def test_names_are_shown_from_where_they_are(face):
    module = importlib.import_module(f"sok_compat.{face}")
    root = "sok" if face == "sparse_operation_kit" else face
    found = {name: place for name, place in HOMES.items() if place and name.startswith(f"{root}.")}
    assert len(found) > 8
    for name, (home_module, last) in found.items():
        shown = getattr(importlib.import_module(home_module), last)
        assert reached(module, name.partition(".")[2]) is shown, name


def test_names_of_deeprec_are_shown_from_where_they_are():
    found = {name: place for name, place in HOMES.items() if place and name.startswith("tf.")}
    assert len(found) > 30
    script = f"""
        import functools, importlib, json
        import sok_compat.deeprec as tf

        def differs(name, module, last):
            value = functools.reduce(getattr, name.split(".")[1:], tf)
            return value is not getattr(importlib.import_module(module), last)

        print(json.dumps([name for name, place in {found}.items() if differs(name, *place)]))
    """
    assert json.loads(run_python(script).splitlines()[-1]) == []


def test_modules_of_public_names(tmp_path):
    write_modules(tmp_path)
    module = (tmp_path / "tf" / "nn" / "__init__.py").read_text()
    line = "import group_embedding_lookup as group_embedding_lookup\n"
    assert f"from sok_compat.deeprec.lookups.group_lookup {line}" in module
    assert (tmp_path / "sok" / "core" / "__init__.py").exists()
