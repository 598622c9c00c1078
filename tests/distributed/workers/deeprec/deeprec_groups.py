# SPDX-License-Identifier: Apache-2.0
"""Random groups of DeepRec lookups, the same on all ranks; no rank shrinks what fails, alone. Then
TensorFlow's own lookups, and steps of DeepRec's own optimizers."""

import functools
import traceback

from hypothesis import HealthCheck, Phase, given, settings

from tests.distributed.workers.ranks import RANK, SIZE, report, session_config
from tests.support.deeprec.deeprec_groups import (
    assert_equals_tensorflow,
    assert_stock_lookups_equal_tensorflow,
    groups,
)
from tests.support.deeprec.deeprec_optimizers import assert_follows_formula

NUM_GROUPS = 6 if SIZE < 4 else 3


def main():
    failures, seen = [], []
    config = session_config(rewrites=False)

    @settings(
        max_examples=NUM_GROUPS,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(groups())
    def run(group):
        seen.append(repr(group))
        try:
            assert_equals_tensorflow(*group, config, RANK, SIZE)
        except AssertionError:
            failures.append(f"{group}\n{traceback.format_exc()}")

    run()
    others = {
        "stock lookups": lambda: assert_stock_lookups_equal_tensorflow(config, RANK, SIZE),
        **{
            case: functools.partial(assert_follows_formula, case, False, config, RANK, SIZE)
            for case in ("AdagradDecay", "AdamAsync", "RowWiseAdagrad")
        },
    }
    for case, check in others.items():
        try:
            check()
        except AssertionError:
            failures.append(f"{case}\n{traceback.format_exc()}")
    report({"failures": failures, "groups": seen})


if __name__ == "__main__":
    main()
