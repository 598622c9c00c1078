# SPDX-License-Identifier: Apache-2.0
"""Two ranks that call TensorFlow 1's exports: rank 0 writes, with the rows of both."""

import re

import numpy as np
import pytest
import tensorflow as tf

from tests.distributed.launch import has_horovod, launched_once, reports, run_ranks

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not has_horovod(), reason="Horovod is not installed: run `make horovod`"),
]
needs_estimator = pytest.mark.skipif(
    not hasattr(tf, "estimator"), reason="this TensorFlow has no tf.estimator"
)


@launched_once
def ranks():
    return reports(run_ranks("deeprec.deeprec_exports", 2, timeout=200))


@needs_estimator
def test_an_estimator_exports_the_rows_of_all_ranks():
    first, second = ranks()
    assert second["exported"] is None
    np.testing.assert_allclose(first["exported"], first["logits"], rtol=1e-5)
    np.testing.assert_allclose(second["logits"], first["logits"], rtol=1e-5)
    assert np.ptp(first["logits"]) > 0.1


@launched_once
def ranks_without_strategy():
    return reports(run_ranks("deeprec.estimator_exports", 2, timeout=200))


@needs_estimator
@pytest.mark.parametrize("who", ["all ranks", "rank 0", "own folders"])
def test_without_a_strategy_rank_0_exports_for_all(who):
    (found, logits, path), (of_second, logits_of_second, no_path) = (
        rank[who] for rank in ranks_without_strategy()
    )
    np.testing.assert_allclose(logits_of_second, logits, rtol=1e-5)
    assert np.ptp(logits) > 0.01
    assert found.keys() == {"called", "FinalExporter", "LatestExporter", "BestExporter"}
    assert (found["called"][0], found["FinalExporter"][0], found["LatestExporter"][0]) == (1, 1, 2)
    for _, exported in found.values():
        np.testing.assert_allclose(exported, logits, rtol=1e-5)
    assert path and not no_path and not of_second


@needs_estimator
def test_rank_0_exports_in_a_job_that_only_exports():
    (paths, found, logits), (of_second, *_) = (rank["alone"] for rank in ranks_without_strategy())
    assert all(paths) and of_second == [None, None] and np.ptp(logits) > 0.01
    for exported in found:
        np.testing.assert_allclose(exported, logits, rtol=1e-5)


@needs_estimator
def test_ranks_that_name_the_folder_otherwise_restore_what_rank_0_has_saved():
    first, second = ranks()
    assert re.search(r"same_0/model\.ckpt-4$", first["latest"])
    assert second["latest"] == first["latest"]
    for rank in (first, second):
        np.testing.assert_array_equal(rank["evaluated"], rank["trained"])


def test_a_rank_that_has_trained_finds_the_last_checkpoint():
    for rank in ranks():
        assert re.search(r"variables_0/model\.ckpt-3$", rank["of_variables"])


@needs_estimator
def test_a_canned_estimator_exports_once():
    first, second = ranks()
    assert first["canned"] is not None and second["canned"] is None


@pytest.mark.parametrize("way", ["by_builder", "at_once"])
def test_a_session_without_tables_is_saved_by_rank_0(way):
    first, second = (rank["without"][way] for rank in ranks())
    assert first == ["saved_model.pb", "variables"] and second == []


@pytest.mark.parametrize("way", ["by_builder", "at_once"])
def test_a_session_with_tables_is_refused_on_all_ranks(way):
    for rank in ranks():
        assert re.search("looks rows up on 2 ranks.*export_saved_model of", rank["with"][way])
