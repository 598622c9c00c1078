# SPDX-License-Identifier: Apache-2.0
"""The pictures of the documents show what was measured."""

import json
import re
import xml.etree.ElementTree as ElementTree

import pytest
from documents import DOCUMENTS, ROOT

from docs.generators.pictures import FOLDER, PICTURES, draw

MOST_BYTES = 40_000
FOUND = {path.stem: path for path in FOLDER.glob("*.svg")}
each_picture = pytest.mark.parametrize("name", PICTURES)


def shown_data(path):
    """The data of a picture, from its description."""
    tree = ElementTree.parse(path)
    (description,) = tree.iter("{http://purl.org/dc/elements/1.1/}description")
    return json.loads(description.text)


def texts(path):
    """What is written in a picture, but for the marks of its axes, which matplotlib chooses."""
    nodes = ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")
    return {node.text for node in nodes if re.search("[a-z]", node.text)}


@each_picture
def test_a_picture_is_what_its_script_draws(name, tmp_path):
    drawn = tmp_path / "drawn.svg"
    draw(name, drawn)
    assert shown_data(FOUND[name]) == shown_data(drawn), "run python -m docs.generators.pictures"
    assert texts(FOUND[name]) == texts(drawn)


@each_picture
def test_a_picture_is_small_and_stands_in_a_document(name):
    assert FOUND[name].stat().st_size < MOST_BYTES
    shown = re.compile(rf"!\[[^]]{{30,}}\]\(\S*pictures/{name}\.svg\)")
    assert [path for path in DOCUMENTS if shown.search(path.read_text())]


def test_no_other_picture():
    assert set(FOUND) == set(PICTURES)


def test_numbers_of_the_auc_stand_in_the_examples_page():
    aucs = shown_data(FOUND["auc"])["test_auc"].values()
    page = (ROOT / "examples" / "dlrm" / "README.md").read_text()
    assert all(f"{auc:.4f}" in page for auc in aucs)
