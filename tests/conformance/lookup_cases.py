# SPDX-License-Identifier: Apache-2.0
"""Scripts of keys that are looked up, and of rows that are pooled."""

import numpy as np

from tests.conformance.scripts import Fails, Script, Slot, Spec, call

HASH = Spec(slots=(Slot("m", 3, 0.5),))
DIRECT = Spec(use_hash_index=False, slots=(Slot("m", 3, 0.5),))
PRESET = Spec(capacity=3, first_value="preset", preset=((1, 2), (3, 4), (5, 6)))
FULL = Fails("ResourceExhaustedError", "table 'users' is full: its capacity is 8")
OUTSIDE = Fails("InvalidArgumentError", "table 'users'.* range")
INVALID = "InvalidArgumentError"
EXTREMES = (0, -1, -(2**63), 2**63 - 1, 2**32, 1)
RANDOM = np.random.default_rng(5)
LONG = RANDOM.integers(0, 40, 5000)
WEIGHTS = RANDOM.normal(size=5000)
FACTORS = (0.5, 2.0, 1.0, 0.0, -3.0)


def absent(keys, **options):
    """Pools keys one by one; nothing is inserted."""
    return call("pool", keys, np.arange(len(keys)), combiner="none", **options)


def seven_keys(**options):
    return call("pool", [9, 4, 6], [0, 1, 2, 0, 0, 1, 2], **options)


FIRST_VALUES = {
    f"first values: {kind}, {dim} numbers, period {period}": Script(
        Spec(dim=dim, first_value=kind, low_or_mean=low, high_or_stddev=high,
             first_value_period=period),
        absent(EXTREMES),
        call("find", EXTREMES, insert=True, gives=range(6)),
        absent(EXTREMES),
        call("export"),
    )
    for kind, low, high in (
        ("uniform", -2.0, 3.0), ("normal", 1.0, 0.5), ("truncated_normal", 0.0, 0.1),
        ("constant", 0.25, 0.0),
    )
    for dim, period in ((1, 0), (5, 7), (64, 7))
}  # fmt: skip

POOLED = {
    f"pooled: {combiner}, {dim} numbers": Script(
        Spec(dim=dim, capacity=64, first_value="normal", low_or_mean=0.0, high_or_stddev=1.0),
        call("find", range(40), insert=True, gives=range(40)),
        call("pool", range(40), LONG, combiner=combiner, row_splits=splits),
        call("pool_received", RANDOM.normal(size=(40, dim)), LONG, splits, combiner),
        *(() if combiner == "none" else (
            call("pool", range(40), LONG, splits, combiner, WEIGHTS),
            call("pool_received", RANDOM.normal(size=(40, dim)), LONG, splits, combiner, WEIGHTS),
            call("pool_received", RANDOM.normal(size=(40, dim)), LONG, splits, combiner,
                 factors=FACTORS),
            call("pool_received", RANDOM.normal(size=(40, dim)), LONG, splits, combiner, WEIGHTS,
                 FACTORS),
        )),
    )
    for dim in (1, 3, 4, 16, 40)
    for combiner, splits in (
        ("none", ()), ("sum", (0, 1, 1, 7, 2500, 5000)), ("mean", (0, 0, 3, 4, 1500, 5000)),
    )
}  # fmt: skip

KEYS = {
    "row ids in the order of keys": Script(
        HASH,
        call("find", [7, 8], gives=[-1, -1]),
        call("find", [7, 8, 7, 9], insert=True, gives=[0, 1, 0, 2]),
        call("find", [10, 9, 8], insert=True, are_distinct=True, gives=[3, 2, 1]),
        call("find", [], insert=True, gives=[]),
        call("rows_in_use", gives=[0, 1, 2, 3]),
        call("contents"),
    ),
    "row ids without a hash index": Script(
        DIRECT,
        call("find", [5, 1, 5], insert=True, gives=[5, 1, 5]),
        call("find", [0, 1], gives=[-1, 1]),
        call("rows_in_use", gives=[1, 5]),
        call("size", gives=2),
        call("contents"),
    ),
    "row ids on a rank of three": Script(
        Spec(use_hash_index=False, num_ranks=3, rank=1),
        call("find", [22, 1, 4], insert=True, gives=[7, 0, 1]),
        call("find", [25], insert=True, fails=OUTSIDE),
        call("find", [5], insert=True, fails=Fails(INVALID, "key 5 belongs to rank 2 of 3")),
        call("find", [0], fails=Fails(INVALID, "belongs to rank 0")),
    ),
    "a full table": Script(
        HASH,
        call("find", range(7), insert=True, gives=range(7)),
        call("find", [6, 20, 21, 20], insert=True, fails=FULL),
        call("insert_rows", [20, 21], np.ones([2, 2]), fails=FULL),
        call("find", [6, 21, 21], insert=True, gives=[6, 7, 7]),
        call("find", [22], insert=True, fails=Fails(FULL.kind, "holds 8, and 1 new keys came")),
        call("find", [0, 21], insert=True, gives=[0, 7]),
    ),
    "keys out of range": Script(
        DIRECT,
        call("find", [2, 8], insert=True, fails=OUTSIDE),
        call("find", [2, -1], fails=OUTSIDE),
        call("find", [-(2**63)], insert=True, fails=OUTSIDE),
        call("insert_rows", [1, 2**40], np.ones([2, 2]), fails=OUTSIDE),
        call("size", gives=0),
    ),
    "rows that are given": Script(
        HASH,
        call("find", [4], insert=True),
        call("insert_rows", [5, 4, 5, 6], np.arange(8).reshape(4, 2), gives=[1, 0, 1, 2]),
        absent([5, 6], gives=[[0, 1], [6, 7]]),
        call("insert_rows", [4], np.ones([1, 3]), fails=Fails(INVALID, "rows for 1 keys must")),
        call("insert_rows", [4], np.ones([2, 2]), fails=Fails(INVALID, r"got \[2,2\]")),
        call("insert_rows", [], np.ones([0, 2]), gives=[]),
    ),
    "distinct keys": Script(
        HASH,
        call("distinct", [3, 3, -1, 3, 0], gives=[[3, -1, 0], [0, 0, 1, 0, 2]]),
        call("distinct", EXTREMES * 2, gives=[EXTREMES, [0, 1, 2, 3, 4, 5] * 2]),
        call("distinct", [], gives=[[], []]),
        call("distinct", [2**32 - 1, 0, 2**32 - 1], key_dtype="uint32",
             gives=[[2**32 - 1, 0], [0, 1, 0]]),
        call("distinct", [-1, 7, -1], key_dtype="int32", gives=[[-1, 7], [0, 1, 0]]),
        call("distinct", LONG),
    ),
}  # fmt: skip

GIVEN = {
    "bags": Script(
        HASH,
        call("insert_rows", [9, 4, 6], [[1, 10], [2, 20], [4, 40]]),
        seven_keys(row_splits=[0, 3, 3, 7], gives=[[7, 70], [0, 0], [8, 80]]),
        seven_keys(row_splits=[0, 3, 3, 7], combiner="mean"),
        seven_keys(combiner="none"),
        seven_keys(row_splits=[0, 7], all_keys_have_rows=True, gives=[[15, 150]]),
        call("pool", [], [], [0, 0, 0], gives=[[0, 0], [0, 0]]),
        call("pool", [], [], combiner="none"),
    ),
    "signs and numbers that are none": Script(
        Spec(dim=3, capacity=9),
        call("insert_rows", [1, 2], [[-0.0, np.nan, 1e-41], [-0.0, np.inf, -1e-41]]),
        *(call("pool", [1, 2], [0, 1, 1], [0, 1, 3], combiner=how)
          for how in ("sum", "mean", "none")),
        call("pool", [1, 2], [0, 1, 1], [0, 1, 3], "sum", [-0.0, np.inf, 1e-41]),
        call("pool", [1, 2], [0, 1, 1], [0, 1, 3], "mean", [np.nan, 1e-41, -0.0]),
        call("merge", [[-0.0, np.nan, 1e-41], [-0.0, np.inf, -1e-41]], 2, [0, 1, 1], [0, 1, 3]),
    ),
    "rows of keys that are absent": Script(
        HASH,
        call("insert_rows", [9], [[1, 10]]),
        seven_keys(row_splits=[0, 7], absent_rows=[[2, 20], [4, 40]], gives=[[15, 150]]),
        seven_keys(row_splits=[0, 7], absent_rows=[[2, 20]],
                   fails=Fails(INVALID, r"returned rows of shape \[1,2\], expected \[2, 2\]")),
        seven_keys(row_splits=[0, 7], absent_rows=np.ones([2, 3]), fails=INVALID),
        call("size", gives=1),
    ),
    "rows that are given where no key is absent": Script(
        HASH,
        call("insert_rows", [9], [[1, 10]]),
        call("pool", [9], [0], [0, 1], absent_rows=[[2, 20]], gives=[[1, 10]]),
    ),
    "what was preset": Script(
        PRESET,
        call("insert_rows", [9], [[7, 8]], gives=[0]),
        absent([5, 9, 5, 6, 4], row_ids=[-1, 0, -1, -1, -1]),
        call("find", [6], insert=True, gives=[1]),
        absent([6], gives=[[3, 4]]),
        call("read_rows", gives=[[7, 8], [3, 4], [5, 6]]),
    ),
    "what was preset without a hash index": Script(
        Spec(capacity=3, use_hash_index=False, first_value="preset", preset=PRESET.preset),
        absent([2, 0], gives=[[5, 6], [1, 2]]),
        call("find", [1], insert=True),
        call("read_rows", gives=PRESET.preset),
        call("size"),
    ),
    "weights": Script(
        HASH,
        call("insert_rows", [9, 4, 6], [[1, 10], [2, 20], [4, 40]]),
        call("pool", [9, 4, 6], [0, 1, 2, 0], [0, 3, 3, 4], "sum", [2, 0.5, -1, 0],
             gives=[[-1, -10], [0, 0], [0, 0]]),
        call("pool", [9, 4, 6], [0, 1, 2, 0], [0, 2, 2, 4], "mean", [1, 3, 1, 1],
             gives=[[1.75, 17.5], [0, 0], [2.5, 25]]),
        call("pool", [9, 4], [0, 1], [0, 2], "mean", [1, -1], gives=[[0, 0]]),
        call("pool", [9, 7], [0, 1], [0, 2], "sum", [1, 2], absent_rows=[[3, 30]],
             gives=[[7, 70]]),
        call("pool", [9], [0, 0], [0, 2], "sum", [1], fails=Fails(INVALID, "weights must have 2")),
        call("pool", [], [], [0, 0], "mean", [], gives=[[0, 0]]),
    ),
    "factors": Script(
        HASH,
        call("pool_received", [[6, 3], [1, 1]], [0, 1], [0, 1, 2], "mean", factors=[0.5, 1],
             gives=[[3, 1.5], [1, 1]]),
        call("pool_received", [[6, 3], [2, 1]], [0, 1], [0, 2], "sum", [1, 3], [0.5],
             gives=[[6, 3]]),
        call("pool_received", [[6, 3]], [0], [0, 1], "mean", factors=[1, 1],
             fails=Fails(INVALID, "factors must have 1 values, got 2")),
        call("pool_received", [[6, 3]], [0], [0, 1], "max", fails=Fails(INVALID, "combiner must")),
    ),
}  # fmt: skip

# A GPU looks at lengths only: it would have to wait for what is in them.
BAD_BAGS = {
    f"{what}: {how}": Script(
        HASH,
        call("insert_rows", [9, 4, 6], np.ones([3, 2])),
        one_call(fails=Fails(INVALID, pattern)),
        only_on=only_on,
    )
    for how, inverse, row_splits, only_on, pattern in (
        ("row_splits that end early", (0, 1, 2), (0, 2), "cpu", "row_splits must .* 3"),
        ("row_splits that end late", (0, 1, 2), (0, 4), "cpu", "row_splits must .* 3"),
        ("row_splits that start late", (0, 1, 2), (1, 3), "cpu", "row_splits must .* 3"),
        ("row_splits that descend", (0, 1, 2), (0, 900_000_000, 3), "cpu", "row_splits"),
        ("an inverse beyond the rows", (0, 1, 900_000_000), (0, 3), "cpu", "inverse"),
        ("a negative inverse", (0, 1, -1), (0, 3), "cpu", "inverse"),
        ("no row_splits", (0, 1, 2), (), "", "row_splits must have at least one value"),
        ("no bags for keys", (0, 1, 2), (0,), "", "row_splits must ascend from 0 to 3"),
    )
    for what, one_call in (
        ("pool", lambda i=inverse, s=row_splits, **k: call("pool", [9, 4, 6], i, s, **k)),
        ("pool what was received",
         lambda i=inverse, s=row_splits, **k: call("pool_received", np.ones([3, 2]), i, s, **k)),
        ("merge", lambda i=inverse, s=row_splits, **k: call(
            "merge", np.ones([max(0, len(s) - 1), 2]), 3, i, s, **k)),
    )
}  # fmt: skip

SPLITS = {
    "row splits of sparse tensors": Script(
        HASH,
        call("row_splits", [(0, 0), (0, 3), (2, 0)], 4, gives=[0, 2, 2, 3, 3]),
        call("row_splits", [], 2, gives=[0, 0, 0]),
        call("row_splits", [(0, 0), (0, 1)], 2, max_nnz=2, bags_per_sample=2, gives=[0, 2, 2]),
        call("row_splits", [(0, 0), (0, 1)], 1, max_nnz=1, fails=Fails(INVALID, "max_nnz = 1")),
        call("row_splits", [(1, 0), (0, 0)], 2, fails=Fails(INVALID, "must ascend")),
        call("row_splits", [(2, 0)], 2, fails=Fails(INVALID, "has row index 2")),
        call("row_splits", [(0, 0)], 3, bags_per_sample=2, fails=Fails(INVALID, "slots = 2")),
        call("row_splits", [(0, 0)], 1, 2, fails=Fails(INVALID, "1 indices and 2 values")),
    ),
    "row splits of ragged tensors": Script(
        HASH,
        *(call("checked_splits", [0, 2, 2, 3], 3, dtype=dtype, gives=[0, 2, 2, 3])
          for dtype in ("int32", "int64")),
        call("checked_splits", [0, 2, 4], 4, bags_per_sample=2, are_samples=True, gives=[0, 2, 4]),
        call("checked_splits", [0, 2, 3], 3, bags_per_sample=2, are_samples=True,
             fails=Fails(INVALID, "sample 1 has 1")),
        call("checked_splits", [0, 3, 2, 3], 3, fails=Fails(INVALID, "row 1 is from 3 to 2")),
        call("checked_splits", [0, 2], 3, fails=Fails(INVALID, "number of values, 3")),
        call("checked_splits", [], 0, fails=Fails(INVALID, "got none")),
        call("checked_splits", [0, 2], 2, max_nnz=1, fails=Fails(INVALID, "max_nnz = 1")),
    ),
}  # fmt: skip

CASES = {**FIRST_VALUES, **POOLED, **KEYS, **GIVEN, **BAD_BAGS, **SPLITS}
