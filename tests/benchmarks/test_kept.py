# SPDX-License-Identifier: Apache-2.0
"""Figures that a benchmark keeps, and the check that contenders have done the same job."""

import pytest

from benchmarks import kept
from benchmarks.contender import check_losses
from benchmarks.tables import Comparison


class Contender:
    def __init__(self, name, value):
        self.name, self._value = name, value

    def loss(self, *_):
        return self._value


def test_ratios_by_run(tmp_path):
    fast = Comparison("step", {"ours": 1.0, "plain": 4.0, "peer": 3.0})
    kept.keep(
        [("training", fast), ("training", Comparison("b", {"ours": 2, "plain": 2}))], tmp_path
    )
    (run,) = kept.read(tmp_path)
    assert run.ratios() == {
        ("training", "plain"): pytest.approx(2),
        ("training", "peer"): pytest.approx(3),
    }
    assert run.versions["tensorflow"] and run.commit and run.machine
    heading, _, *rows = kept.table([run, run])
    assert heading.count(run.commit) == 2
    assert [row.split("|")[1].strip() for row in rows] == ["training: plain", "training: peer"]
    assert rows[0].count("2.00") == 2


def test_contenders_with_other_losses():
    check_losses([Contender("a", 1.0), Contender("b", 1.0005)], [])
    with pytest.raises(RuntimeError, match="not done the same job: losses {'a': 1.0, 'b': 1.1}"):
        check_losses([Contender("a", 1.0), Contender("b", 1.1)], [])
