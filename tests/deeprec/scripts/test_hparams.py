# SPDX-License-Identifier: Apache-2.0
"""HParams of `tf.contrib.training`: what is set is there, or is refused."""

import pytest

from sok_compat.deeprec.contrib.training import HParams


def hparams():
    return HParams(rate=0.1, steps=10, dims=[1, 2], name="a", flag=False, shape=(3, 4), none=None)


@pytest.mark.parametrize("text, changed", [
    ("rate=2,steps=3", {"rate": 2.0, "steps": 3}),
    (" rate = 1e-3 , flag = True,", {"rate": 1e-3, "flag": True}),
    ("dims=[8, 4],name=b c", {"dims": [8, 4], "name": "b c"}),
    ("dims=[],name=", {"dims": [], "name": ""}),
    ("dims=7\nshape=[5,6]", {"dims": [7], "shape": (5, 6)}),
    ("dims[1]=9,name=x=y", {"dims": [1, 9], "name": "x=y"}),
    ("steps=-1,none=5", {"steps": -1, "none": "5"}),
    ("", {}),
])  # fmt: skip
def test_parse(text, changed):
    assert hparams().parse(text).values() == {**hparams().values(), **changed}


@pytest.mark.parametrize("text, message", [
    ("rate=2,steps", "cannot parse 'steps' in 'rate=2,steps'"),
    ("dims=[1,2", "cannot parse"),
    ("rate 2", "cannot parse 'rate 2'"),
    ("other=1", "HParams has no 'other', only rate, steps"),
    ("steps=1.5", "HParams 'steps' must be int, like 10, got '1.5'"),
    ("flag=maybe", "HParams 'flag' must be true or false"),
    ("rate=[1,2]", r"HParams 'rate' is a single float, got \['1', '2'\]"),
    ("rate=1,rate=2", "'rate' is set twice"),
    ("dims[2]=1", "HParams 'dims' has 2 values, and no index 2"),
])  # fmt: skip
def test_texts_that_would_be_lost_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        hparams().parse(text)


@pytest.mark.parametrize("name, value", [("steps", 1.5), ("dims", [1, 2.5]), ("rate", "fast")])
def test_values_of_another_type_are_refused(name, value):
    with pytest.raises(ValueError, match=f"HParams '{name}' must be "):
        hparams().set_hparam(name, value)


def test_values_that_lose_nothing_are_converted():
    changed = hparams().override_from_dict({"steps": 3.0, "rate": 1, "dims": (4, "5"), "name": 6})
    values = changed.values()
    expected = {"steps": 3, "rate": 1.0, "dims": [4, 5], "name": "6"}
    for name, value in expected.items():
        assert values[name] == value and type(values[name]) is type(value)
