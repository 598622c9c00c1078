# SPDX-License-Identifier: Apache-2.0
"""Checks that a tag, the version and the changelog agree: `python .ci/release.py v0.1.0`."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def problems(tag, project, changelog):
    """Messages, for the texts of pyproject.toml and CHANGELOG.md."""
    version = re.search(r'^version = "(.+)"$', project, re.MULTILINE)[1]
    newest = re.search(r"^## \[(.+)\] - (\S+)$", changelog, re.MULTILINE)
    if newest is None or newest[1] != version:
        yield f"CHANGELOG.md begins with {newest and newest[1]}, pyproject.toml has {version}"
    elif tag is not None and not re.fullmatch(r"\d{4}-\d\d-\d\d", newest[2]):
        yield f"CHANGELOG.md gives no date for {version}, but {newest[2]!r}"
    if tag not in (None, f"v{version}"):
        yield f"the tag is {tag}, the version {version}: it must be v{version}"


if __name__ == "__main__":
    texts = [(ROOT / name).read_text() for name in ("pyproject.toml", "CHANGELOG.md")]
    sys.exit("\n".join(problems(sys.argv[1] if len(sys.argv) > 1 else None, *texts)) or 0)
