# SPDX-License-Identifier: Apache-2.0
"""Documents outside of docs/ as pages of the site, and links between documents there."""

from __future__ import annotations

import pathlib
import posixpath
import re
import textwrap

ROOT = pathlib.Path(__file__).parents[2]
_PAGES = {  # a document of the repository: its page
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contribute/contributing.md",
    "SECURITY.md": "contribute/security.md",
    "benchmarks/RESULTS.md": "benchmarks/results.md",
    "benchmarks/modelzoo/RUNS.md": "benchmarks/modelzoo_runs.md",
}
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
_TO_A_FILE = re.compile(r"(?<!!)\[([^]]+)\]\((?!https?://|#)([^)#\s]+)\)")
_DIFF = re.compile(r"^```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def documents() -> dict[str, str]:
    """{page of the site: its document in the repository}, of those outside of docs/."""
    found = {page: path for path, page in _PAGES.items() if page != "index.md"}
    for path in (ROOT / "benchmarks" / "history").glob("*.md"):
        found[f"benchmarks/history/{path.name}"] = f"benchmarks/history/{path.name}"
    for path in (ROOT / "examples").glob("*/README.md"):
        found[f"examples/{path.parent.name}.md"] = f"examples/{path.parent.name}/README.md"
    for path in (ROOT / "examples" / "notebooks").glob("*.ipynb"):
        found[f"examples/{path.stem}.md"] = f"examples/notebooks/{path.name}"
    return found


def linked(markdown: str, page: str, document: str = "") -> str:
    """The text of a page with links to pages in the place of links to documents.

    A link to a file that is no page, such as a source, leaves its text.

    document: where the text is from; by default the page's own.
    """
    document = document or documents().get(page, f"docs/{page}")
    pages = {path: name for name, path in documents().items()}

    def replaced(match):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(document), match[1]))
        for path in (target, f"{target}/README.md"):
            if path in pages or path in _PAGES:
                return f"]({_from(page, pages.get(path) or _PAGES[path])}"
        if target.startswith("docs/"):
            return f"]({_from(page, target.removeprefix('docs/'))}"
        return match[0]  # no page: the build says so

    def without_link(match):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(document), match[2]))
        is_page = target in pages or target in _PAGES or f"{target}/README.md" in pages
        lost = not is_page and not target.startswith("docs/")
        return match[1] if lost and (ROOT / target).exists() else match[0]

    def in_text(text):
        return _LINK.sub(replaced, _TO_A_FILE.sub(without_link, text))

    parts, end = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [in_text(markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, in_text(markdown[end:])])


def with_tabs(markdown: str) -> str:
    """The text with each diff in three tabs: a script is copied from one that has no signs."""
    return _DIFF.sub(_tabs, markdown)


def _tabs(match):
    lines = match[1].splitlines()
    tabs = {
        "Changes": ("diff", lines),
        "Before": ("python", [line[1:] for line in lines if not line.startswith("+")]),
        "After": ("python", [line[1:] for line in lines if not line.startswith("-")]),
    }
    return "\n\n".join(
        f'=== "{title}"\n\n'
        + textwrap.indent("\n".join([f"```{language}", *code, "```"]), "    ", lambda _: True)
        for title, (language, code) in tabs.items()
    )


def _from(page, target):
    return posixpath.relpath(target, posixpath.dirname(page) or ".")
