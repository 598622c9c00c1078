# SPDX-License-Identifier: Apache-2.0
"""A step that is not finite on one rank is skipped on all, and they keep one loss scale."""

from tests.distributed.launch import reports, run_ranks


def test_ranks_skip_together():
    (single,), several = [reports(run_ranks("loss_scale", n)) for n in (1, 2)]
    assert [scale for scale, _ in single] == [2.0**15] + [2.0**14] * 3
    assert single[1][1] == single[0][1]  # step 1 changed nothing
    assert single[2][1] != single[1][1]
    assert several == [single] * 2  # each rank's row is its own, and all rows are alike
