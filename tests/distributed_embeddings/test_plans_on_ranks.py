# SPDX-License-Identifier: Apache-2.0
"""DistributedEmbedding on several ranks: the numbers of plain variables on one process.

Some plans are written down here, others are drawn; each number of ranks runs all of its in one
launch.
"""

import functools
import json
import os
import re
import tempfile

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sok_compat.distributed_embeddings.python.layers import dist_model_parallel as dmp
from sok_compat.distributed_embeddings.python.layers.embedding import Embedding
from tests.distributed.launch import has_horovod, launched_once, reports, run_ranks
from tests.support.assertions import assert_same_tensors
from tests.support.cases.thorough import thorough_but

NUM_DRAWN = int(os.environ.get("SOK_TEST_MODELS", 3))
TABLES = [(30, 4, "sum"), (7, 6, "mean"), (50, 4, "sum"), (11, 3, None), (9, 4, "mean")]
INPUTS = [(0, 3), (1, 2), (2, 5), (3, 1), (4, 0), (1, 1), (0, 0)]  # (table, hotness); 0: ragged
PLANS = {
    "basic": ({}, "SGD"),
    "columns": ({"strategy": "memory_balanced", "column_slice_threshold": 40}, "Adagrad"),
    "all kinds": (
        {
            "strategy": "memory_optimized",
            "data_parallel_threshold": 40,
            "row_slice_threshold": 200,
            "column_slice_threshold": 30,
        },
        "Adam",
    ),
    "rows": ({"row_slice_threshold": 36, "data_parallel_threshold": 33}, "Adagrad"),
    "owned": ({"dp_input": False, "column_slice_threshold": 40}, "Adam"),
    "uneven": ({"strategy": "memory_balanced", "column_slice_threshold": 8}, "SGD"),
    "permuted": ({"strategy": "memory_balanced", "column_slice_threshold": 40}, "SGD"),
    "without inputs": ({}, "SGD"),
}
OTHER_TABLES = {  # and their inputs
    # On 3 ranks two of three slices of one table meet: one rank has 2 columns, another 4.
    "uneven": ([(2, 2, "sum"), (3, 6, "sum"), (3, 2, "sum")], [(0, 2), (1, 2), (2, 2)]),
    "permuted": ([(10, 4, "sum"), (15, 4, "sum"), (5, 4, "sum")], [(1, 2), (0, 2), (2, 0)]),
    "without inputs": ([(10, 4, "sum"), (15, 4, "sum")], [(0, 2)]),  # those of rank 1
}
# In the launch of drawn cases.
WITH_DRAWN = ("basic", "columns", "owned", "permuted", "uneven", "without inputs")
ON_THREE_RANKS = ("all kinds", "rows", "uneven", "without inputs")  # where sizes do not divide
GROUPS = {  # with one rank all are cut by columns
    "basic": [[], [0, 1, 2, 3, 4], []],
    "columns": [[], [0, 1, 2, 3, 4], []],
    "all kinds": [[3, 4], [0, 1], [2]],
    "rows": [[3], [], [0, 1, 2, 4]],
    "owned": [[], [0, 1, 2, 3, 4], []],
    "uneven": [[], [0, 1, 2], []],
    "permuted": [[], [0, 1, 2], []],
    "without inputs": [[], [0, 1], []],
}


def written_down(name):
    options, optimizer = PLANS[name]
    tables, inputs = OTHER_TABLES.get(name, (TABLES, INPUTS))
    return {
        "tables": [(*table, True) for table in tables],
        "inputs": [(*one, f"int{32 + 32 * (i % 2)}") for i, one in enumerate(inputs)],
        "options": options,
        "optimizer": optimizer,
        "steps": 3,
        "as function": name in ("all kinds", "owned"),
        "seed": 5,
    }


@st.composite
def cases(draw):
    tables = draw(st.lists(
        st.tuples(
            st.integers(2, 40),
            st.integers(1, 8),
            st.sampled_from(["sum", "mean", None]),
            st.sampled_from([True, True, True, False]),
        ),
        min_size=2,
        max_size=5,
    ))  # fmt: skip
    dp_input = draw(st.booleans())
    inputs = []
    for table in draw(st.lists(st.integers(0, len(tables) - 1), min_size=1, max_size=6)):
        forms = [1] if tables[table][2] is None else [1, 2, 4, 0] + [-1] * (not dp_input)
        dtype = st.sampled_from(["int32", "int64"])
        inputs.append((table, draw(st.sampled_from(forms)), draw(dtype)))
    options = {"dp_input": dp_input, "strategy": draw(st.sampled_from(
        ["basic", "memory_balanced", "memory_optimized", "auto"]
    ))}  # fmt: skip
    if options["strategy"] != "auto":
        for kind in ("column_slice", "row_slice", "data_parallel"):
            options[f"{kind}_threshold"] = draw(st.none() | st.integers(1, 160))
    options["gpu_embedding_size"] = draw(st.none() | st.integers(0, 200))
    return {
        "tables": tables,
        "inputs": inputs,
        "options": options,
        "optimizer": draw(st.sampled_from(["SGD", "Adagrad", "Adam"])),
        "steps": draw(st.integers(1, 10)),
        "as function": draw(st.booleans()),
        "seed": draw(st.integers(0, 1000)),
    }


def drawn(number):
    """That many cases, the same in each run."""
    found = []

    @settings(
        max_examples=number,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases())
    def draw(case):
        found.append(case)

    draw()
    return {f"drawn {i}": case for i, case in enumerate(found)}


@functools.cache
def checkpoints_of_all():
    return tempfile.TemporaryDirectory()


@launched_once
def reported(num_ranks, is_drawn):
    """What each rank reports of all cases of one launch."""
    is_drawn_alone = is_drawn and num_ranks != 3
    if num_ranks > 1 and not is_drawn_alone:
        reported(1, False)  # whose checkpoint all read
    names = ON_THREE_RANKS  # which run both kinds in one launch: a thorough test anyway
    if num_ranks != 3:
        names = [name for name in PLANS if (name in WITH_DRAWN) == is_drawn]
    found = {name: written_down(name) for name in names} | (drawn(NUM_DRAWN) if is_drawn else {})
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(found, file)
        file.flush()
        environment = {"SOK_TEST_EAGER": "1"}
        worker = "embeddings.embeddings_of_plans"
        arguments = (file.name, *([] if is_drawn_alone else [checkpoints_of_all().name]))
        ranks = run_ranks(worker, num_ranks, *arguments, timeout=900, environment=environment)
    return reports(ranks)


def of_launch(num_ranks, is_drawn):
    if num_ranks > 1 and not has_horovod():
        pytest.skip("needs Horovod")
    return reported(num_ranks, is_drawn or num_ranks == 3)


RANKS = thorough_but(1, [(2, False), (1, False), (3, False)])  # and whether with drawn cases
RANKS_AND_PLANS = [
    pytest.param(
        (n, plan in WITH_DRAWN),
        plan,
        id=f"{n} ranks-{plan}",
        marks=[pytest.mark.thorough] if n != 2 or plan in WITH_DRAWN else [],
    )
    for n in (1, 2, 3)
    for plan in (ON_THREE_RANKS if n == 3 else PLANS)
]
on_ranks_by_plan = pytest.mark.parametrize("ranks, plan", RANKS_AND_PLANS, indirect=["ranks"])


@pytest.fixture(scope="module", params=RANKS, ids=lambda launch: f"{launch[0]} ranks")
def ranks(request):
    return of_launch(*request.param)


@on_ranks_by_plan
def test_tables_are_of_the_groups_of_the_plan(ranks, plan):
    for rank in ranks:
        groups = rank["cases"][plan]["table groups"]
        all_by_columns = [[], sorted(sum(GROUPS[plan], [])), []]
        assert groups == (GROUPS[plan] if len(ranks) > 1 else all_by_columns)
        assert rank["cases"][plan]["local"] == [
            *[False] * len(groups[0]),
            *[True] * (len(rank["cases"][plan]["local"]) - len(groups[0])),
        ]


@on_ranks_by_plan
def test_weights_come_back_as_they_were_set(ranks, plan):
    check_weights([rank["cases"][plan] for rank in ranks])
    for rank in ranks:
        made = rank["cases"][plan]
        for actual, expected in zip(made["first"], ranks[0]["cases"][plan]["first"]):
            assert 0 < np.std(actual) < 0.1
            assert len(ranks) > 1 or np.array_equal(actual, expected)


@on_ranks_by_plan
def test_outputs(ranks, plan):
    made = [rank["cases"][plan] for rank in ranks]
    check_outputs(made)
    for one in made[0]["outputs"]:
        assert one.ndim == 2 or len(ranks) == 1 or plan in ("all kinds", "rows")


@on_ranks_by_plan
def test_training(ranks, plan):
    check_training([rank["cases"][plan] for rank in ranks])


@pytest.mark.thorough
@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4])
def test_drawn_cases(num_ranks):
    """Any options, tables, inputs and optimizer."""
    ranks = of_launch(num_ranks, True)
    for name, case in drawn(NUM_DRAWN).items():
        try:
            made = [rank["cases"][name] for rank in ranks]
            check_weights(made)
            check_outputs(made)
            check_training(made)
        except AssertionError as error:
            raise AssertionError(f"{num_ranks} ranks, {case}: {error}") from error


def check_weights(made):
    for rank, one in enumerate(made):
        for actual, expected in zip(one["as set"], one["given"], strict=True):
            np.testing.assert_array_equal(actual, expected)
        assert one["num of rank 0"] == (len(one["given"]) if rank == 0 else 0)


def check_outputs(made):
    for i, expected in enumerate(made[0]["plain"]["outputs"]):
        actual = np.concatenate([one["outputs"][i] for one in made])
        np.testing.assert_allclose(actual.reshape(expected.shape), expected, rtol=1e-5, atol=1e-6)


def check_training(made):
    losses = np.mean([one["losses"] for one in made], axis=0)
    np.testing.assert_allclose(losses, made[0]["plain"]["losses"], rtol=1e-4)
    for one in made:
        for actual, expected in zip(one["trained"], made[0]["plain"]["trained"], strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=3e-5)


def test_scaling_of_gradients():
    """Bare tapes sum over ranks; Horovod's divide where they average, as of copied tables."""
    ranks = of_launch(2, False)
    summed = np.array([1, 2, 0, 3])
    of_rank_0, of_rank_1 = [rank["gradients"] for rank in ranks]
    np.testing.assert_allclose(of_rank_0["bare table"], summed)
    np.testing.assert_allclose(of_rank_0["mean table"], summed / 2)
    np.testing.assert_allclose(of_rank_0["sum table"], summed)
    assert not any(np.any(of_rank_1[f"{how} table"]) for how in ("bare", "mean", "sum"))
    for own, rank in ((np.array([1, 0, 0, 1]), of_rank_0), (np.array([0, 2, 0, 2]), of_rank_1)):
        np.testing.assert_allclose(rank["bare copy"], own)
        np.testing.assert_allclose(rank["mean copy"], summed / 2)
        np.testing.assert_allclose(rank["sum copy"], summed)


def test_fit_with_broadcasts(ranks):
    (alone,) = [rank["fit"] for rank in reported(1, False)]
    assert alone["losses"][-1] < alone["losses"][0]
    mean = np.mean([rank["fit"]["losses"] for rank in ranks], axis=0)
    np.testing.assert_allclose(mean, alone["losses"], rtol=1e-5)
    for rank in ranks:
        for actual, expected in zip(rank["fit"]["on"], alone["on"], strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-6)
        for error, message in rank["fit"]["files"]:
            assert error == (None if len(ranks) == 1 else "NotImplementedError")
            assert error is None or "a path without an ending" in message


@pytest.mark.parametrize("way", ["checkpoints", "sessions", "fit"])
def test_what_is_saved_fits_other_plans_and_numbers_of_ranks(ranks, way):
    """Rows and slots: a step, or an epoch, behind a tf.train.Checkpoint, a tf.train.Saver's and
    what Keras has saved gives the same numbers, where no slot is there yet, and where it is."""
    (alone,) = [rank[way]["on"] for rank in reported(1, False)]
    for rank in ranks:
        seen = rank[way]
        for what in ("on", "again", "of 1 on" if way == "checkpoints" else "of 1"):
            for actual, expected in zip(seen[what], alone, strict=True):
                np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.thorough
def test_behavior_of_tensorflow_1():
    if not has_horovod():
        pytest.skip("needs Horovod")
    (alone,) = [rank["sessions"]["on"] for rank in reported(1, False)]
    ranks = reports(
        run_ranks("embeddings.embeddings_in_tf1", 2, checkpoints_of_all().name, timeout=300)
    )
    for rank in ranks:
        for what in ("on", "again", "of 1"):
            for actual, expected in zip(rank["sessions"][what], alone, strict=True):
                np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
        dtypes, rows = rank["of owners"]
        assert dtypes == ["float32"] * 2
        np.testing.assert_array_equal(rows, [[[2 * i, 2 * i + 1], [0, 1]] for i in range(2)])


def test_savers_of_all_plans_save_the_same(ranks):
    folder = checkpoints_of_all().name  # imported: by a new saver of the imported graph
    of_1, of_all = (tf.train.load_checkpoint(f"{folder}/session{n}") for n in (1, len(ranks)))
    names = of_all.get_variable_to_shape_map()
    assert names.keys() == of_1.get_variable_to_shape_map().keys()
    slots = [f"distributed_embedding/tables/{i}/{x}" for i in range(3)
             for x in ("rows", "slots/Adam", "slots/Adam_1")]  # fmt: skip
    assert sorted(names) == ["beta1_power", "beta2_power", *slots]
    for name in names:
        actual, expected = (each.get_tensor(name) for each in (of_all, of_1))
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
    assert_same_tensors(f"{folder}/session{len(ranks)}", f"{folder}/imported{len(ranks)}")


def test_other_batches_of_ranks_fail_on_all(ranks):
    if len(ranks) == 1:
        return
    for rank in ranks:
        (built, of_other_size, not_divisible), rows = rank["other batches"]
        assert built[0] == "ValueError" and "need to have same batchsize. got [[" in built[1]
        for error, message in (of_other_size, not_divisible):
            assert error in ("InvalidArgumentError", "UnknownError")
            assert re.search(r"bytes of rows, got|rows for \d+ replies", message)
        for owner, output in enumerate(rows):  # of a step after that
            np.testing.assert_array_equal(output, np.full([12 // len(ranks), 2], owner))


def test_layers_that_are_called_as_they_are(ranks):
    """Layers of the script's, regularizers and constraints: whole on every rank."""
    (_, alone), *_ = [rank["called_layers"] for rank in reported(1, False)]
    for rank in ranks:
        shapes, weights = rank["called_layers"]
        assert len(ranks) == 1 or {len(shape) for shape in shapes} == {2}
        for actual, expected in zip(weights, alone, strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-6)


def test_id_of_no_row_fails_all_ranks_in_one_call(ranks):
    """It says which input and table it is of; the next call is right."""
    for rank in ranks:
        for error, outputs in rank["ids_of_no_row"]:
            assert error[0] in ("InvalidArgumentError", "UnknownError")
            assert re.search(
                r"the table (\d) \(of\1\) of input \1 has \d rows: ids must be .* got 400 at "
                r"position 0", error[1]
            )  # fmt: skip
            for output in outputs:
                np.testing.assert_array_equal(output, np.full([2, 2], 2.0))


def test_autograph_has_nothing_to_say(ranks):
    assert [rank["warnings_of_autograph"] for rank in ranks] == [[]] * len(ranks)


def test_ids_that_are_sent_to_owners(ranks):
    size = len(ranks)
    of_all = {
        0: [[rank, 10] for rank in range(size)],
        1: [bag for rank in range(size) for bag in ([20 + rank] * (rank + 1), [])],
        2: [30 + rank for rank in range(size)],
        3: [bag for rank in range(size) for bag in ([], [40] * rank)],
    }
    wanted = {rank: [] for rank in range(size)} | {0: [1, 2], size - 1: [3, 0, 1]}
    for rank, seen in enumerate(ranks):
        assert seen["sent_ids"] == {i: of_all[i] for i in wanted[rank]}


def test_checkpoint_of_several_ranks_fits_one(ranks):
    size = len(ranks)
    layers = [Embedding(*sizes, combiner="sum") for sizes in ((30, 4), (7, 6), (50, 4))]
    layer = dmp.DistributedEmbedding(layers)
    layer([np.zeros([2, 1], int)] * 3)
    path = f"{checkpoints_of_all().name}/{size}"
    tf.train.Checkpoint(layer=layer).read(path).expect_partial()
    ((expected,),) = [[rank["checkpoints"]["of 1"] for rank in reported(1, False)]]
    for actual, rows in zip(layer.get_weights(), expected[:3], strict=True):
        np.testing.assert_allclose(actual, rows, rtol=1e-4, atol=1e-5)
    other = dmp.DistributedEmbedding([*layers[:2], Embedding(51, 4, combiner="sum")])
    other([np.zeros([2, 1], int)] * 3)
    before = other.get_weights()
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"2/rows .* shape \[50, 4\], .* \[51"):
        tf.train.Checkpoint(layer=other).read(path)
    for actual, rows in zip(other.get_weights(), before, strict=True):
        np.testing.assert_array_equal(actual, rows)
