# SPDX-License-Identifier: Apache-2.0
"""Environment variables: how they are read, how ranks compare them, and that the page has all."""

import ast
import json
import re

import pytest

from sok_compat.runtime.settings import (
    BFLOAT16_PRODUCTS,
    CHECKPOINTS_ON_RANK_0,
    RECORD_FREQUENCIES,
    RESTORE_OTHER_WIDTHS,
    ROW_DTYPE,
    SAVE_FILTERED_KEYS,
    SAVE_MEMORY,
    SETTINGS,
    SHARED_MEMORY,
    STALL_TIMEOUT,
    WIRE_DTYPE,
    SettingsDifferError,
    check_same_on_all_ranks,
    settings_in_words,
)
from tests.docs.documents import ROOT, code_words, table_rows

PAGE = ROOT / "docs" / "use" / "configuration.md"


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch):
    for setting in SETTINGS:
        monkeypatch.delenv(setting.name, raising=False)


@pytest.mark.parametrize(
    "setting, text, expected",
    [
        (STALL_TIMEOUT, None, 60.0),
        (STALL_TIMEOUT, "0.5", 0.5),
        (WIRE_DTYPE, None, "float32"),
        (WIRE_DTYPE, "bfloat16", "bfloat16"),
        (ROW_DTYPE, None, "float32"),
        (ROW_DTYPE, "float16", "float16"),
        (SHARED_MEMORY, None, True),
        (SHARED_MEMORY, "0", False),
        (CHECKPOINTS_ON_RANK_0, None, False),
        (CHECKPOINTS_ON_RANK_0, "1", True),
        (SAVE_MEMORY, None, 128),
        (SAVE_MEMORY, "0", 0),
        (RECORD_FREQUENCIES, "True", True),
        (RECORD_FREQUENCIES, "no", False),
        (SAVE_FILTERED_KEYS, None, True),
        (SAVE_FILTERED_KEYS, "False", False),
        (RESTORE_OTHER_WIDTHS, None, False),
        (RESTORE_OTHER_WIDTHS, "1", True),
        (BFLOAT16_PRODUCTS, None, False),
        (BFLOAT16_PRODUCTS, "1", True),
    ],
)
def test_values(monkeypatch, setting, text, expected):
    if text is not None:
        monkeypatch.setenv(setting.name, text)
    value = setting.value()
    assert value == expected and type(value) is type(expected)


@pytest.mark.parametrize(
    "setting, text, values",
    [
        (STALL_TIMEOUT, "0", "a number of seconds > 0"),
        (STALL_TIMEOUT, "soon", "a number of seconds > 0"),
        (WIRE_DTYPE, "int8", "one of float32, bfloat16, float16"),
        (SHARED_MEMORY, "yes", "0 or 1"),
        (CHECKPOINTS_ON_RANK_0, "", "0 .* or 1 .*"),
        (SAVE_MEMORY, "-1", "a whole number of MiB >= 0"),
        (SAVE_FILTERED_KEYS, "no", "true, false, 1 or 0"),
    ],
)
def test_other_values_are_errors(monkeypatch, setting, text, values):
    monkeypatch.setenv(setting.name, text)
    with pytest.raises(ValueError, match=f"^{setting.name} must be {values}, got '{text}'$"):
        setting.value()


def test_ranks_compare_what_it_means(monkeypatch):
    lines = [settings_in_words()]
    monkeypatch.setenv(STALL_TIMEOUT.name, "6e1")
    lines.append(settings_in_words())
    assert all(line.isascii() and "\n" not in line for line in lines)
    check_same_on_all_ranks(lines)


def test_ranks_that_differ_are_named(monkeypatch):
    lines = [settings_in_words()]
    monkeypatch.setenv(STALL_TIMEOUT.name, "30")
    monkeypatch.setenv(SHARED_MEMORY.name, "yes\n")  # wrong where it is used, on that rank
    lines += [settings_in_words(), json.dumps(json.loads(lines[0]))]
    with pytest.raises(SettingsDifferError) as error:
        check_same_on_all_ranks(lines)
    assert (
        "SOK_STALL_TIMEOUT_SECONDS is '60.0' on rank 0, 2, '30.0' on rank 1; "
        r"SOK_SHARED_MEMORY is 'True' on rank 0, 2, 'yes\n' on rank 1. Set it"
    ) in str(error.value)


def test_the_page_has_each_setting_as_the_code_has_it():
    rows = [
        (f"`{each.name}`", each.default, each.effect, each.set_by)
        for each in SETTINGS
    ]  # fmt: skip
    assert [tuple(row) for row in table_rows(PAGE, "variable of sok_compat")] == rows


def test_no_other_variable_is_read_but_those_of_others_on_the_page():
    known = {word for row in table_rows(PAGE, "variable of others") for word in code_words(row[0])}
    found = set()
    for path in sorted((ROOT / "sok_compat").rglob("*.py")):
        text = path.read_text()
        if "environ" in text and path.name != "settings.py":
            constants = [n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant)]
            names = [each for each in constants if isinstance(each, str)]
            found |= {each for each in names if re.fullmatch(r"[A-Z]+(_[A-Z0-9]+)*", each)}
    assert {each for each in found if "_" in each or each == "CUDACXX"} == known
