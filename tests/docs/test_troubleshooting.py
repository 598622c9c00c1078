# SPDX-License-Identifier: Apache-2.0
"""The messages in docs/use/troubleshooting.md are those of the sources."""

import re

import pytest
from documents import ROOT, code_words

PAGE = ROOT / "docs" / "use" / "troubleshooting.md"
OF_OTHERS = {"submitted to be reduced"}  # Horovod's
MESSAGES = [
    word
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| message")
    for word in code_words(line.split(" | ")[0])
    if word not in OF_OTHERS
]


@pytest.fixture(scope="module")
def sources():
    """The text of all sources, with adjacent literals joined."""
    folders = (ROOT / "sok_compat", ROOT / "ops")
    paths = [path for folder in folders for path in folder.rglob("*.*")]
    texts = [path.read_text() for path in paths if path.suffix in (".py", ".cc", ".h")]
    return re.sub(r'",?\s*f?"', "", "\n".join(texts))


def test_the_page_has_twenty_messages():
    assert len(MESSAGES) >= 20


@pytest.mark.parametrize("message", MESSAGES)
def test_message_is_raised(message, sources):
    """Each part of it between what varies stands in one literal of a source."""
    message = re.sub(r"^\w+Error: ", "", message)
    parts = [part for part in re.split(r"<[^>]*>|\d+|SOK_\w+", message) if len(part) > 3]
    assert parts
    for part in parts:
        assert part.strip(" ():") in sources, part
