# SPDX-License-Identifier: Apache-2.0
"""Tables of several ranks that are assigned rows from arrays and files."""

import pytest

from tests.distributed.launch import reports, run_ranks

KEYS = [0, -1, 5, 2**40, -(2**63), 7, 8, 9]
thorough = pytest.mark.thorough
RUNS = [
    pytest.param((2, False), id="2 ranks"),
    pytest.param((1, False), id="1 rank", marks=thorough),
    pytest.param((3, False), id="3 ranks", marks=thorough),
    pytest.param((2, True), id="2 ranks, eager", marks=thorough),
]


@pytest.fixture(scope="module", params=RUNS)
def ranks(request, tmp_path_factory):
    """[what each rank saw]."""
    num_ranks, is_eager = request.param
    environment = {"SOK_TEST_EAGER": "1"} if is_eager else {}
    folder = str(tmp_path_factory.mktemp("assigned"))
    return reports(run_ranks("numbers.assigning", num_ranks, folder, environment=environment))


def test_each_rank_takes_the_keys_that_it_owns(ranks):
    for table in ranks[0]["assigned"]:
        for source in ranks[0]["assigned"][table]:
            rows = {}
            for number, rank in enumerate(ranks):
                found = rank["assigned"][table][source]
                assert {key % len(ranks) for key in found} <= {number}
                rows.update(found)
            assert rows == {key: (key % 97, 1.0) for key in KEYS}, (table, source)


def test_what_does_not_fit_on_one_rank_is_assigned_on_none(ranks):
    for number, rank in enumerate(ranks):
        (broken, twice), is_as_before = rank["failed"]
        assert is_as_before
        if number == len(ranks) - 1:
            assert broken[0] == "DataLossError" and "broken" in broken[1]
            assert twice[0] == "InvalidArgumentError" and "appears twice" in twice[1]
        else:
            assert broken[0] == "DataLossError" and f"rank {len(ranks) - 1}: " in broken[1]
            assert f"rank {len(ranks) - 1} " in twice[1]
