# SPDX-License-Identifier: Apache-2.0
"""Tables in files have the bits of tables in memory on several ranks, whatever is in memory."""

import pytest

from tests.distributed.launch import reports, run_ranks


@pytest.mark.parametrize("num_steps", [150, pytest.param(10_000, marks=pytest.mark.thorough)])
def test_bits_of_tables_in_memory(disk, num_steps):
    del disk  # the working folder of ranks is on the same one
    for found in reports(run_ranks("numbers.rows_in_files", 2, num_steps, timeout=900)):
        in_memory, one_percent, *_ = found["rows_missed"]
        assert in_memory == 0 < one_percent and found["keys"] > 0
