# SPDX-License-Identifier: Apache-2.0
"""Decision records have one shape, and the index has all of them."""

import re

import pytest
from documents import ROOT

FOLDER = ROOT / "docs" / "decisions"
INDEX = FOLDER / "index.md"
RECORDS = {int(path.name[:4]): path for path in sorted(FOLDER.glob("[0-9]*.md"))}
STATUS = re.compile(r"accepted|replaced by (\d+)")
MOST_WORDS = 300
PARTS = ["Status", "Context", "Decision", "Evidence", "Consequences"]

each_record = pytest.mark.parametrize("number", RECORDS)


def parts(text):
    """{name of a part: the first line of its text}, in order."""
    return dict(re.findall(rf"^({'|'.join(PARTS)}): (.+)$", text, re.MULTILINE))


@each_record
def test_the_shape_of_a_record(number):
    path = RECORDS[number]
    text = path.read_text()
    assert re.fullmatch(r"\d{4}-[a-z0-9]+(-[a-z0-9]+)*\.md", path.name)
    assert re.match(rf"# {number}\. \S.*\n\nStatus: ", text)
    found = parts(text)
    assert list(found) in (PARTS, PARTS[:-1])
    status = STATUS.fullmatch(found["Status"])
    assert status, found["Status"]
    if status[1]:
        assert int(status[1]) in RECORDS
    assert len(text.split()) <= MOST_WORDS


@each_record
def test_a_record_stands_in_the_index_as_it_is(number):
    path = RECORDS[number]
    text = path.read_text()
    title = re.match(r"# \d+\. (.+)", text)[1]
    rows = re.findall(rf"^\| {number} \| (.+) \| (.+) \|$", INDEX.read_text(), re.MULTILINE)
    ((link, status),) = rows
    assert link == f"[{title}]({path.name})"
    assert re.sub(r"\[(\d+)\]\(\S+\)", r"\1", status) == parts(text)["Status"]


def test_the_index_has_no_others():
    numbers = re.findall(r"^\| (\d+) \|", INDEX.read_text(), re.MULTILINE)
    assert sorted(map(int, numbers)) == sorted(RECORDS)
