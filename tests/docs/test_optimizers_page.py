# SPDX-License-Identifier: Apache-2.0
"""The costs in docs/use/optimizers.md are those that the tests of the optimizers hold."""

from documents import ROOT, code_words, table_rows

from tests.support.cases.optimizer_cases import KERAS_OPTIMIZERS, STOCK_OPTIMIZERS

PAGE = ROOT / "docs" / "use" / "optimizers.md"


def test_every_stock_optimizer_has_its_row():
    told = {
        code_words(name)[0]: (int(slots), rows)
        for name, slots, rows in table_rows(PAGE, "optimizer")
    }
    assert told == {str(case): (case.num_slots, case.step_rows) for case in STOCK_OPTIMIZERS}


def test_optimizers_that_look_at_all_rows_are_named():
    (paragraph,) = [p for p in PAGE.read_text().split("\n\n") if p.startswith("Some look at all")]
    assert set(code_words(paragraph)) == {
        str(case) for case in KERAS_OPTIMIZERS if case.needs_all_keys
    }
