# SPDX-License-Identifier: Apache-2.0
"""Scripts of gradients, optimizers and updates by row id."""

import dataclasses

import numpy as np

from tests.conformance.scripts import Fails, Script, Slot, Spec, call

INVALID = "InvalidArgumentError"
HASH = Spec(slots=(Slot("m_and_v", 4), Slot("accumulator", 2, 0.1)))
DIRECT = dataclasses.replace(HASH, use_hash_index=False)
RANDOM = np.random.default_rng(6)
FEW = RANDOM.integers(0, 3, 9)
LONG = RANDOM.integers(0, 3, 20_000)
THREE = RANDOM.normal(size=(3, 2))
INSERT = call("find", [0, 2, 4], insert=True)
LOOK = call("export_planes")


def both(gradients, row_ids, **options):
    """Each optimizer with these gradients."""
    return (
        call("adam", gradients, row_ids, **options),
        call("adam", gradients, row_ids, is_lazy=False, **options),
        call("adagrad", gradients, row_ids, **options),
    )


MERGED = {
    f"merged: {combiner} of {len(inverse)}, {dim} numbers": Script(
        HASH,
        call("merge", RANDOM.normal(size=(num_bags, dim)), 4, inverse, splits, combiner=combiner),
        call("merge", RANDOM.normal(size=(2, dim)), 2, [0, 1], combiner="none"),
        call("merge", np.ones([2, dim]), 2, [1, 0], [0, 1, 2], [0, 3, 3], combiner="mean"),
        call("merge", np.zeros([0, dim]), 2, [], [0], gives=np.zeros([2, dim])),
    )
    for dim in (1, 3, 17)
    for inverse, combiner, splits, num_bags in (
        (FEW, "none", (), 9), (FEW, "sum", (0, 2, 2, 7, 9), 4), (FEW, "mean", (0, 5, 9), 2),
        (LONG, "none", (), 20_000), (LONG, "sum", (0, 2, 2, 9_000, 20_000), 4),
        (LONG, "mean", (0, 5, 20_000), 2),
    )
}  # fmt: skip

TRAINED = {
    f"optimizers {where}": Script(
        spec,
        INSERT,
        *both(THREE, row_ids),
        *both(THREE, row_ids, are_distinct=True),
        *both(THREE, row_ids[:1] * 3),
        *both(np.ones([0, 2]), []),
        *both(THREE[:1] * np.array([[0.0, -0.0]]), row_ids[1:2]),
        LOOK,
    )
    for where, spec, row_ids in (
        ("with a hash index", HASH, [0, 2, 1]), ("without a hash index", DIRECT, [4, 0, 2]),
    )
}  # fmt: skip

WRONG = {
    f"gradients {what}: {where}": Script(
        spec,
        INSERT,
        *(dataclasses.replace(step, expected=fails) for step in both(values, row_ids, **options)),
        LOOK,
    )
    for where, spec in (("with a hash index", HASH), ("without a hash index", DIRECT))
    for what, values, row_ids, options, fails in (
        ("of a row beyond those in use", THREE, [0, 7, 2], {},
         Fails(INVALID, "gradient for row 7, but the table has")),
        ("of a row below 0", THREE, [0, -1, 2], {}, Fails(INVALID, "gradient for row -1, but")),
        ("of no row of this table, said to be distinct", THREE, [0, 7, 2], {"are_distinct": True},
         Fails(INVALID, "gradient for row 7, but the table has")),
        ("of another number of rows", THREE, [0, 1], {},
         Fails(INVALID, r"gradients must have shape \[2, 2\], got \[3,2\]")),
        ("of another width", np.ones([1, 3]), [0], {},
         Fails(INVALID, r"gradients must have shape \[1, 2\], got \[1,3\]")),
    )
}  # fmt: skip

OTHERS = {
    "a row below the last one that no key has": Script(DIRECT, INSERT, *both(THREE[:1], [1]), LOOK),
    "a merge of another number of gradients": Script(
        HASH,
        call("merge", THREE, 1, [0, 0], [0, 1, 2],
             fails=Fails(INVALID, "gradients for 2 bags expected, got 3")),
        call("merge", THREE, 1, [0, 0], combiner="none",
             fails=Fails(INVALID, "gradients for 2 bags expected, got 3")),
    ),
    "an optimizer whose state is not there": Script(
        Spec(),
        INSERT,
        call("adam", THREE, [0, 1, 2], fails=Fails("FailedPreconditionError", "m_and_v")),
        call("adagrad", THREE, [0, 1, 2], fails=Fails("FailedPreconditionError", "accumulator")),
    ),
    "an optimizer whose state has another shape": Script(
        Spec(slots=(Slot("m_and_v", 3), Slot("accumulator", 3))),
        INSERT,
        *(dataclasses.replace(step, expected=Fails(INVALID, "must keep its shape"))
          for step in both(THREE, [0, 1, 2])),
    ),
    "updates by row id": Script(
        HASH,
        INSERT,
        call("scatter", "Add", [1, 1, 0], np.ones([3, 2])),
        call("scatter", "Sub", [2], np.ones([1, 2]), plane="accumulator"),
        call("scatter", "Update", [0], [[3, 4]]),
        call("scatter", "Update", [8], [[3, 4]], fails=INVALID),
        LOOK,
        call("read_rows"),
    ),
    "an update of a row before its key comes": Script(
        HASH,
        INSERT,
        call("scatter", "Update", [5], [[3, 4]]),
        call("find", [7, 8, 9], insert=True),
        LOOK,
    ),
    "rows that no key has read as zeros after an update": Script(
        Spec(first_value="constant", low_or_mean=1.0),
        INSERT,
        call("scatter", "Update", [5], [[3, 4]]),
        call("read_rows", gives=[[1, 1]] * 3 + [[0, 0]] * 5),
    ),
    "another value of the rows": Script(
        HASH,
        INSERT,
        call("assign_plane", np.arange(16).reshape(8, 2)),
        call("find", [9], insert=True),
        LOOK,
        *both(THREE, [0, 1, 2]),
        call("read_rows"),
    ),
    "rows that no key has read as zeros after an assignment": Script(
        Spec(first_value="constant", low_or_mean=1.0),
        call("find", [3, 4], insert=True),
        call("assign_plane", np.full([8, 2], 5.0)),
        call("read_rows", gives=[[5, 5]] * 2 + [[0, 0]] * 6),
    ),
    "another value of a slot": Script(
        HASH,
        INSERT,
        call("assign_plane", np.arange(16).reshape(8, 2), plane="accumulator"),
        *both(THREE, [0, 1, 2]),
        LOOK,
    ),
    "a value of another shape": Script(
        HASH,
        INSERT,
        call("assign_plane", np.ones([7, 2])),
        call("find", [0], insert=True, fails=Fails(INVALID, "must keep its shape")),
        call("export", fails=Fails(INVALID, "must keep its shape")),
        call("pool", [0], [0], [0, 1], row_ids=[0], fails=Fails(INVALID, "must keep its shape")),
        call("adagrad", THREE[:1], [0], fails=Fails(INVALID, "must keep its shape")),
        call("import_planes", [1], [[1, 2]], fails=Fails(INVALID, "must keep its shape")),
        call("assign_plane", np.ones([8, 2])),
        call("find", [0], insert=True, gives=[0]),
    ),
    "calls that read no plane, after a value of another shape": Script(
        HASH,
        INSERT,
        call("assign_plane", np.ones([7, 2])),
        call("find", [0, 7], gives=[0, -1]),
        call("size", gives=3),
        call("rows_in_use", gives=[0, 1, 2]),
    ),
}  # fmt: skip

CASES = {**MERGED, **TRAINED, **WRONG, **OTHERS}
