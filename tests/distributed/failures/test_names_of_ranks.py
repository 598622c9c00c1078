# SPDX-License-Identifier: Apache-2.0
"""Names whose answer depends on the ranks."""

from tests.distributed.launch import reports, run_ranks


def test_ranks_agree_on_steps_and_know_themselves():
    (single,), several = [reports(run_ranks("failures.names", n)) for n in (1, 2)]
    assert [scale for scale, _ in single["training"]] == [2.0**15] + [2.0**14] * 3
    rows = [rows for _, rows in single["training"]]
    assert rows[1] == rows[0] != rows[2]  # step 1 changed nothing
    # Skipped on both ranks, though only one of them overflowed; each has a row, and all are alike.
    assert [rank["training"] for rank in several] == [single["training"]] * 2
    assert single["replica"] == ("OneDevice", 0) and single["error"] is None
    assert [rank["replica"] for rank in several] == [("Horovod", 0), ("Horovod", 1)]
    assert all("each of the 2 ranks has its own" in rank["error"] for rank in several)
