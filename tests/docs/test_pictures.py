# SPDX-License-Identifier: Apache-2.0
"""The pictures of the documents show what was measured."""

import json
import re
import xml.etree.ElementTree as ElementTree

import pytest
from documents import DOCUMENTS, ROOT, table_rows

from benchmarks import kept
from benchmarks.tables import Comparison
from docs.generators import ratios_page
from docs.generators.pictures import FOLDER, PICTURES, draw, history_data, measured, work_of

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


def test_numbers_of_the_readme_are_measured():
    """Steps and memory are those of the pictures, speeds of scripts those of their page."""
    readme = " ".join((ROOT / "README.md").read_text().split())
    ours, plain, other = (f"{times['16']:.1f}" for times in shown_data(FOUND["speed"]).values())
    assert f"{ours} ms where plain TensorFlow takes {plain} and" in readme
    assert f"tensorflow-recommenders-addons {other} (" in readme
    tables = measured("memory")["resident_bytes"].values()
    small, large, variable = ([[keys, size / 1e9] for keys, size in points] for points in tables)
    for points in (small, large):
        half = min(points, key=lambda point: abs(point[0] - 2.6e6))[1]
        assert half == pytest.approx(0.40, rel=0.02) and points[-1][1] == pytest.approx(
            0.75, rel=0.02
        )
    assert "2.6 million keys take 0.40 GB, 5 million 0.75 GB" in readme
    assert f"5 million rows takes {variable[0][1]:.2f} GB" in readme
    speeds = table_rows(ROOT / "docs" / "use" / "modelzoo.md", "model | default")
    times, halves = ([row[column].split(", ")[1] for row in speeds] for column in (5, 6))
    numbers = sorted(map(float, times[:-1]))
    range_of_times = f"train {numbers[0]:.2f} to {numbers[-1]:.2f} times"
    assert f"{len(numbers)} models of DeepRec's collection {range_of_times}" in readme
    means = f"{times[-1]} in the geometric mean, {halves[-1]} if products of matrices are in"
    assert means in readme


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
