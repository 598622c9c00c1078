# SPDX-License-Identifier: Apache-2.0
"""The pictures of the documents show what was measured."""

import json
import re
import xml.etree.ElementTree as ElementTree

import pytest
from documents import DOCUMENTS, ROOT

from benchmarks import kept
from benchmarks.tables import Comparison
from docs.generators import ratios_page
from docs.generators.pictures import FOLDER, PICTURES, draw, history_data, work_of

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


def test_ratios_of_one_run_and_of_two(tmp_path):
    for ours in (1.0, 0.5):
        step = Comparison("step", {"ours": ours, "plain TensorFlow": 2.0})
        path = kept.keep([("training", step)], tmp_path)
        path.rename(tmp_path / f"{ours:.1f}.json")  # of one minute
    one, two = tmp_path / "0.5.json", history_data(tmp_path)
    ratios = [ratio for _, ratio in two["training"]["plain TensorFlow"]]
    assert ratios == [4, 2]
    draw("history", tmp_path / "two.svg", two)
    assert shown_data(tmp_path / "two.svg") == json.loads(json.dumps(two))
    assert "| 4.00" in ratios_page.page(kept.read(tmp_path))
    one.unlink()
    draw("history", tmp_path / "one.svg", history_data(tmp_path))
    assert "training: plain TensorFlow" in texts(tmp_path / "one.svg")


def test_the_page_of_ratios_is_what_its_script_writes():
    written = ratios_page.PAGE.read_text()
    assert written == ratios_page.page(kept.read()), "run python -m docs.generators.ratios_page"


@pytest.mark.parametrize("op, expected", [
    ("layer/SokExchangeKeys", "exchange keys"),
    ("layer/SokExchangeRows", "exchange rows"),
    ("gradients/layer/SokExchangeRows_grad/SokExchangeValues", "exchange gradients"),
    ("gradients/layer/SokExchangeRows_grad/SokMergeGradients", "sum gradients"),
    ("gradients/layer/SokPoolReceivedRows_grad/SokMergeGradients", "sum gradients"),
    ("layer/SokPoolReceivedRows", "pool rows"),
    ("Square", "the model"),
])  # fmt: skip
def test_the_work_of_an_op(op, expected):
    assert work_of(op) == expected
