# SPDX-License-Identifier: Apache-2.0
"""Documents outside of docs/ as pages of the site, and links between documents there."""

from __future__ import annotations

import pathlib
import posixpath
import re

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


def documents() -> dict[str, str]:
    """{page of the site: its document in the repository}, of those outside of docs/."""
    found = {page: path for path, page in _PAGES.items() if page != "index.md"}
    for path in (ROOT / "benchmarks" / "history").glob("*.md"):
        found[f"benchmarks/history/{path.name}"] = f"benchmarks/history/{path.name}"
    for path in (ROOT / "examples").glob("*/README.md"):
        found[f"examples/{path.parent.name}.md"] = f"examples/{path.parent.name}/README.md"
    return found


def linked(markdown: str, page: str, document: str = "") -> str:
    """The text of a page with links to pages in the place of links to documents.

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

    parts, end = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [_LINK.sub(replaced, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, _LINK.sub(replaced, markdown[end:])])


def _from(page, target):
    return posixpath.relpath(target, posixpath.dirname(page) or ".")
