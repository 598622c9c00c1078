# SPDX-License-Identifier: Apache-2.0
"""The strategy 'collective': N ranks train as one process that is fed their batches together."""

import re
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.deeprec.collective import distributed_strategy
from tests.distributed.launch import has_horovod, launched_once, reports, run_ranks

pytestmark = pytest.mark.thorough
needs_horovod = pytest.mark.skipif(
    not has_horovod(), reason="Horovod is not installed: run `make horovod`"
)
TOLERANCE = dict(rtol=1e-4, atol=1e-5)
IDIOMS = [
    "of_allreduced_loss, GradientDescentOptimizer",
    "of_allreduced_loss, AdamOptimizer",
    "of_parts, GradientDescentOptimizer",
    "of_products, GradientDescentOptimizer",
    "of_means, GradientDescentOptimizer",
    "of_scope, GradientDescentOptimizer",
    "of_scope, AdagradOptimizer",
    "of_tf_gradients, GradientDescentOptimizer",
    "of_plain_gradients, GradientDescentOptimizer",
    "of_script, GradientDescentOptimizer",
    "of_sums, GradientDescentOptimizer",
    "of_wrapper, GradientDescentOptimizer",
]
IDIOMS_OF = {1: IDIOMS, 2: IDIOMS, 4: IDIOMS[::6]}


@launched_once
def trained(num_ranks):
    """[rank] of what it reported; one launch trains in all idioms."""
    return reports(
        run_ranks("deeprec.deeprec_collective", num_ranks, *IDIOMS_OF[num_ranks], timeout=600)
    )


@needs_horovod
@pytest.mark.parametrize(
    "num_ranks, idiom", [(ranks, idiom) for ranks in (2, 4) for idiom in IDIOMS_OF[ranks]]
)
def test_ranks_train_as_one_process(num_ranks, idiom):
    ranks = [rank["idioms"][idiom] for rank in trained(num_ranks)]
    (one,) = (rank["idioms"][idiom] for rank in trained(1))
    np.testing.assert_allclose(np.mean([r["losses"] for r in ranks], 0), one["losses"], **TOLERANCE)
    for rank in ranks:
        assert rank["step"] == one["step"] == 4
        np.testing.assert_allclose(rank["norms"], one["norms"], **TOLERANCE)
        for ours, first, expected in zip(rank["dense"], ranks[0]["dense"], one["dense"]):
            np.testing.assert_array_equal(ours, first)
            np.testing.assert_allclose(ours, expected, **TOLERANCE)
    for number, expected in enumerate(one["rows"]):
        rows = {key: row for rank in ranks for key, row in rank["rows"][number].items()}
        assert sum(len(rank["rows"][number]) for rank in ranks) == len(rows)
        assert rows.keys() == expected.keys()
        for key, row in rows.items():
            np.testing.assert_allclose(row, expected[key], **TOLERANCE)


def keys_of_increment(saved, table):
    """Of the table, which the ranks have saved in parts."""
    of_table = re.compile(rf"{table}(/part_\d+)?\.increment-keys")
    return sorted(key for name, keys in saved.items() if of_table.fullmatch(name) for key in keys)


@needs_horovod
def test_a_run_that_was_stopped_goes_on_from_an_increment():
    """save_incremental_checkpoint_secs; the increment has keys of all ranks."""
    ranks = [rank["increments"] for rank in trained(2)]
    (one,) = (rank["increments"] for rank in trained(1))
    (steady,) = (
        rank["idioms"]["of_allreduced_loss, AdamOptimizer"]["losses"] for rank in trained(1)
    )
    np.testing.assert_allclose(one["losses"], steady, **TOLERANCE)
    np.testing.assert_allclose(np.mean([r["losses"] for r in ranks], 0), steady, **TOLERANCE)
    for table in ("t0", "t1"):
        keys = keys_of_increment(ranks[0]["saved"], table)
        assert keys and keys == keys_of_increment(one["saved"], table)


@needs_horovod
def test_a_session_starts_on_all_ranks_as_on_the_first():
    one = trained(1)[0]["idioms"][IDIOMS[0]]["start"]
    for rank in trained(2):
        for seen in rank["idioms"].values():
            for ours, expected in zip(seen["start"], one):
                np.testing.assert_array_equal(ours, expected)


needs_estimator = pytest.mark.skipif(
    not hasattr(tf, "estimator"), reason="this TensorFlow has no tf.estimator"
)


@needs_horovod
@needs_estimator
@pytest.mark.parametrize("num_tables", [0, 2])
class TestEstimators:
    """With ordinary variables alone, and with embedding variables, in checkpoints of all ranks."""

    @pytest.mark.parametrize(
        "run, steps", [("new", [2, 4]), ("resumed", [6, 7]), ("finished", [7])]
    )
    def test_ranks_train_and_evaluate_as_one(self, num_tables, run, steps):
        (one,) = (rank["estimators"][num_tables]["histories"][run] for rank in trained(1))
        ranks = [rank["estimators"][num_tables]["histories"][run] for rank in trained(2)]
        assert [metrics["global_step"] for metrics in one] == steps
        for number, expected in enumerate(one):
            assert {rank[number]["global_step"] for rank in ranks} == {expected["global_step"]}
            mean = np.mean([rank[number]["loss"] for rank in ranks])
            np.testing.assert_allclose(mean, expected["loss"], **TOLERANCE)

    def test_ranks_predict_and_the_first_exports_as_one(self, num_tables):
        (one,) = (rank["estimators"][num_tables] for rank in trained(1))
        first, *others = (rank["estimators"][num_tables] for rank in trained(2))
        shares = [np.reshape(rank["predicted"], [4, -1]) for rank in (first, *others)]  # of batches
        predicted = np.stack(shares, axis=2).reshape(-1)
        np.testing.assert_allclose(predicted, one["predicted"], **TOLERANCE)
        assert len(one["logits"]) == len(first["logits"]) == 2
        assert not any(rank["logits"] for rank in others)
        for ours, expected in zip(first["logits"], one["logits"]):
            np.testing.assert_allclose(ours, expected, **TOLERANCE)


@pytest.mark.parametrize("strategy, message", [
    ("parameter_server", "'parameter_server' is not supported: .*; use 'collective'"),
    ("mirrored", "must be 'collective' or 'localized', got 'mirrored'"),
])  # fmt: skip
def test_other_strategies_are_refused(strategy, message):
    for enable in ("enable_distributed_strategy", "enable_group_embedding"):
        with pytest.raises(ValueError, match=message):
            getattr(distributed_strategy, enable)(strategy)


def test_localized_changes_nothing():
    before = set(sys.modules)
    distributed_strategy.enable_distributed_strategy("localized")
    distributed_strategy.enable_group_embedding(fusion_type="localized")
    assert not {name for name in set(sys.modules) - before if name.startswith("horovod")}
    assert not distributed_strategy.is_collective()


def test_a_horovod_that_fails_says_why(monkeypatch):
    def init():
        raise OSError("no such library")

    broken = types.SimpleNamespace(init=init, is_initialized=lambda: False)
    monkeypatch.setitem(sys.modules, "horovod", types.ModuleType("horovod"))
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", broken)
    monkeypatch.setenv("HOROVOD_SIZE", "2")
    with pytest.raises(ImportError, match="OSError: no such library.*sok_compat.doctor") as caught:
        distributed_strategy.enable_distributed_strategy()
    assert isinstance(caught.value.__cause__, OSError)
