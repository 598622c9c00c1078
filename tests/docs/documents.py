# SPDX-License-Identifier: Apache-2.0
"""The project's Markdown files, cut into what the tests look at."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
DOCUMENTS = sorted(
    path
    for where in ("*.md", "docs/**/*.md", "examples/**/*.md", "benchmarks/**/*.md")
    for path in ROOT.glob(where)
)


def blocks(path, language):
    """The fenced blocks of a file in one language."""
    fenced = rf"^```{language}\n(.*?)^```$"
    return re.findall(fenced, path.read_text(), re.MULTILINE | re.DOTALL)


def python_blocks(path):
    """The fenced Python blocks of a file."""
    return blocks(path, "python")


def after_diff(diff):
    """The text that a diff leads to."""
    lines = [line for line in diff.splitlines() if not line.startswith("-")]
    return "".join(f"{line[1:]}\n" for line in lines)


def before_diff(diff):
    """The text that a diff begins with."""
    lines = [line for line in diff.splitlines() if not line.startswith("+")]
    return "".join(f"{line[1:]}\n" for line in lines)


def prose(path):
    """The text without fenced blocks."""
    return re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)


def links(path):
    """The targets of all links but those to other hosts."""
    targets = re.findall(r"\]\(([^)\s]+)\)", prose(path))
    return [target for target in targets if not target.startswith(("http://", "https://"))]


def anchors(path):
    """What a link to one of the file's headings has behind '#', as code hosts make it."""
    headings = re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def table_rows(path, heading):
    """The cells of the rows of the first table whose first column has this heading."""
    lines = iter(path.read_text().splitlines())
    for line in lines:
        if line.startswith(f"| {heading} |"):
            next(lines)
            break
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def code_words(text):
    """What stands between backticks."""
    return re.findall(r"`([^`]+)`", text)
