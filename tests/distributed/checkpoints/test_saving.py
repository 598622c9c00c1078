# SPDX-License-Identifier: Apache-2.0
"""Tables that some number of ranks dumps and another number restores."""

import numpy as np
import pytest

from tests.distributed.launch import reports, run_ranks
from tests.support.saves.saved_table import DIM

pytestmark = pytest.mark.thorough

NAMES = ("hash", "uint32", "direct", "on rank 0 only")
FILES = dict(zip(NAMES, ["", "_1", "_2", "_3"]))
KEYS_PER_DUMP = {"hash": 8, "uint32": 5, "direct": 24, "on rank 0 only": 4}
NUM_LOADED = 11
NUM_ROUNDS = 8


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """{ranks: [what each saw]}; 3 and 2 ranks dump, those after them restore."""
    three, two = (str(tmp_path_factory.mktemp(name)) for name in ("three", "two"))
    return {
        "folders": {3: three, 2: two},
        3: reports(run_ranks("checkpoints.saving", 3, three)),
        2: reports(run_ranks("checkpoints.saving", 2, two, three)),
        1: reports(run_ranks("checkpoints.saving", 1, "-", three, two)),
        4: reports(run_ranks("checkpoints.saving", 4, "-", three, two)),
    }


def joined(tables):
    """{key: row} of all ranks."""
    rows = {key: row for table in tables for key, row in table.items()}
    assert len(rows) == sum(map(len, tables))
    return rows


def assert_same_rows(actual, expected):
    assert actual.keys() == expected.keys()
    for key, row in actual.items():
        np.testing.assert_array_equal(row, expected[key])


@pytest.mark.parametrize("name", NAMES)
class TestSaving:
    """Dumps, restores and loads of all kinds of tables."""

    @pytest.mark.parametrize("num_ranks", [2, 3])
    def test_the_dump_holds_the_keys_of_all_ranks(self, runs, name, num_ranks):
        stem = f"{runs['folders'][num_ranks]}/EmbeddingVariable{FILES[name]}"
        keys = np.fromfile(f"{stem}_keys.file", "<u4" if name == "uint32" else "<i8").tolist()
        values = np.fromfile(f"{stem}_values.file", "<f4").reshape(-1, DIM)
        assert len(set(keys)) == len(keys) == len(values) == KEYS_PER_DUMP[name]
        dumped = joined([rank["dumped"][name] for rank in runs[num_ranks]])
        assert_same_rows(dict(zip(keys, values)), dumped)

    @pytest.mark.parametrize("dumping,restoring", [(3, 1), (3, 2), (3, 4), (2, 1), (2, 4)])
    def test_another_number_of_ranks_restores_it(self, runs, name, dumping, restoring):
        place = [3, 2].index(dumping)
        restored = [rank["restored"][place][name] for rank in runs[restoring]]
        for number, rows in enumerate(restored):
            assert all(key % restoring == number for key in rows)
        dumped = joined([rank["dumped"][name] for rank in runs[dumping]])
        assert_same_rows(joined(restored), dumped)

    @pytest.mark.parametrize("num_ranks", [1, 2, 3, 4])
    def test_load_embedding_values(self, runs, name, num_ranks):
        loaded = joined([rank["loaded"][name] for rank in runs[num_ranks]])
        values = np.arange(NUM_LOADED * DIM, dtype=np.float32).reshape(NUM_LOADED, DIM)
        if name == "direct":  # the other rows have their first values
            loaded = {key: row for key, row in loaded.items() if key < NUM_LOADED}
        assert_same_rows(loaded, dict(enumerate(values)))


@pytest.mark.parametrize("num_ranks", [2, 3])
def test_what_fails_on_one_rank_fails_on_all(runs, num_ranks):
    """Both end as on rank 0, which has the files."""
    failed = [rank["failed"] for rank in runs[num_ranks]]
    for errors, is_as_before, is_dumped_when_done in failed:
        assert is_as_before and is_dumped_when_done and len(errors) == 2
    kinds = [[kind for kind, _ in errors] for errors, *_ in failed]
    assert kinds[0][1] == "NotFoundError"
    assert [[*kind] for kind in kinds[1:]] == [["UnknownError"] * 2] * (num_ranks - 1)
    for (_, dump_message), (_, restore_message) in (errors for errors, *_ in failed):
        assert "EmbeddingVariable.dump" in dump_message
        assert "missing/EmbeddingVariable_keys.file" in restore_message


@pytest.mark.parametrize("num_ranks", [2, 3])
def test_ranks_that_do_not_do_the_same(runs, num_ranks):
    """One fails before it dumps, which shifts nothing; or it has another folder."""
    seen = [rank["apart"] for rank in runs[num_ranks]]
    for rank, (failed, dumped, restored) in enumerate(seen):
        kind, message = failed
        if rank == num_ranks - 1:
            assert kind == "InvalidArgumentError" and "a check of the script" in message
        else:
            assert kind == "UnknownError" and f"rank {num_ranks - 1} " in message
        assert dumped == b"saved."
        kind, message = restored
        assert kind == "InvalidArgumentError" and "the ranks restore different dumps" in message
        assert f"/two, rank {num_ranks - 1} " in message


@pytest.mark.parametrize("num_ranks", [2, 3])
def test_what_was_dumped_is_there_at_once_on_all_ranks(runs, num_ranks):
    assert {rank["at once"] for rank in runs[num_ranks]} == {NUM_ROUNDS}


@pytest.mark.parametrize("num_ranks", [2, 3])
def test_a_dump_and_a_restore_at_once(runs, num_ranks):
    assert all(rank["crossed"] for rank in runs[num_ranks])
