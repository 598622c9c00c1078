# SPDX-License-Identifier: Apache-2.0
"""Scripts of several tables in one op, and of tables that ranks share in other ways."""

import dataclasses

import numpy as np

from tests.conformance.scripts import Fails, Script, Slot, Spec, call

INVALID = "InvalidArgumentError"
WIDE = Spec(dim=3, first_value="constant", low_or_mean=2.0)
DIRECT = Spec(dim=1, use_hash_index=False, slots=(Slot("m", 1, 0.5),))
GROUP = Spec(slots=(Slot("m", 3, 0.5),), beside=(WIDE, DIRECT))
FILLED = (
    call("insert_rows", [9, 4, 6], [[1, 10], [2, 20], [4, 40]]),
    call("of_table", 2, call("insert_rows", [5, 0], [[7], [8]])),
)
TRAINED = Spec(
    slots=(Slot("accumulator", 2, 3.0),),
    beside=(dataclasses.replace(WIDE, slots=(Slot("accumulator", 3, 8.0),)),
            dataclasses.replace(DIRECT, slots=(Slot("accumulator", 1, 0.0),))),
)  # fmt: skip
LOOK = tuple(call("of_table", number, call("contents")) for number in range(3))


def together(*calls, **promise):
    """Calls of the tables 0, 1, 2."""
    return call("together", *enumerate(calls), **promise)


def _adagrad(gradients, row_ids, **options):
    numbers = {"learning_rate": 0.5, "epsilon": 0.0}
    options = {"numbers": numbers, "states": ("accumulator",), **options}
    return call("apply", "adagrad", gradients, row_ids, **options)


GROUPS = {
    "a group finds rows": Script(
        GROUP,
        *FILLED,
        together(call("find", [4, 7], insert=True), call("find", [], insert=True),
                 call("find", [3, 5], insert=True), gives=[[1, 3], [], [3, 5]]),
        together(call("find", [7, 8]), call("find", [1]), call("find", [0]),
                 gives=[[3, -1], [-1], [0]]),
        *LOOK,
    ),
    "a group finds rows of one table twice": Script(
        GROUP,
        call("together", (0, call("find", [4, 7], insert=True)),
             (0, call("find", [7, 8], insert=True)), gives=[[0, 1], [1, 2]]),
        *LOOK,
    ),
    "a group pools": Script(
        GROUP,
        *FILLED,
        together(
            call("pool", [9, 4], [0, 1, 1], [0, 2, 3]),
            call("pool", [1], [0, 0], [0, 0, 2], "mean", [1, 3]),
            call("pool", [5, 0], [1, 0], (), "none"),
            gives=[[[3, 30], [2, 20]], [[0] * 3, [2] * 3], [[8], [7]]],
        ),
        together(
            call("pool", [9, 6], [0, 1], [0, 2], "sum", [1, 0.5]),
            call("pool", [], [], [0]),
            call("pool", [5], [0], [0, 1], rows="m"),
            gives=[[[3, 30]], np.zeros([0, 3]), [[0.5]]],
        ),
        together(
            call("pool_received", [[1, 2]], [0, 0], [0, 2], "mean"),
            call("pool_received", [[3]], [0], [0, 1], "sum", [2]),
            call("pool_received", [[6, 6, 6]], [0], [0, 1], "mean", factors=[0.5]),
            gives=[[[1, 2]], [[6]], [[3, 3, 3]]],
        ),
        call("together", (0, call("pool", [9], [0], [0, 1])),
             (1, call("pool", [1], [0], [])), fails=Fails(INVALID, "row_splits must")),
        *LOOK,
    ),
    "a group merges gradients": Script(
        GROUP,
        together(
            call("merge", [[1, 2], [3, 4]], 2, [0, 1, 1], [0, 2, 3]),
            call("merge", [[1, 2, 3]], 1, [0, 0], [0, 2], "mean", counted=np.ones([1, 3])),
            call("merge", [[5], [6]], 1, [0, 0], (), "none"),
            gives=[[[1, 2], [4, 6]], [[1, 2, 3]], [[11]]],
        ),
    ),
    "a group is trained": Script(
        TRAINED,
        *FILLED,
        call("of_table", 1, call("find", [3], insert=True)),
        together(_adagrad([[1, 0]], [2]), _adagrad([[1, 1, 1]], [0]), _adagrad([[4], [2]], [5, 0])),
        together(call("pool", [6], [0], [0, 1]), call("pool", [3], [0], [0, 1]),
                 call("pool", [5, 0], [0, 1], (), "none"),
                 gives=[[[3.75, 40]], [[2 - 0.5 / 3] * 3], [[6.5], [7.5]]]),
        *LOOK,
        together(_adagrad([[1, 1]], [1]), _adagrad([[1, 1, 1]], [1]), _adagrad([[1]], [0]),
                 fails=Fails(INVALID, "row")),
        together(_adagrad([[1, 1], [2, 2]], [1, 1]), _adagrad(np.zeros([0, 3]), []),
                 _adagrad([[1]], [0], rows_to_update="given")),
        *LOOK,
        together(*(_adagrad(np.zeros([0, dim]), [], rows_to_update="in_use") for dim in (2, 3, 1))),
        *LOOK,
    ),
    "a group of keys and splits": Script(
        GROUP,
        together(call("distinct", [3, 3], "int64"), call("distinct", [2**32 - 1], "uint32"),
                 call("distinct", [-1, 5, -1], "int32"),
                 gives=[[3], [2**32 - 1], [-1, 5], [0, 0], [0], [0, 1, 0]]),
        together(call("row_splits", [(0, 0)], 1), call("row_splits", [], 2, bags_per_sample=2),
                 gives=[[0, 1], [0, 0, 0]]),
        together(call("checked_splits", [0, 1], 1), call("checked_splits", [0], 0, dtype="int32"),
                 gives=[[0, 1], [0]]),
        together(call("row_splits", [(0, 0)], 1),
                 call("row_splits", [(0, 0)], 3, bags_per_sample=2),
                 fails=Fails(INVALID, "slots = 2")),
    ),
    "a group whose first table is full": Script(
        GROUP,
        *FILLED,
        together(call("find", range(20, 26), insert=True), call("find", [1], insert=True),
                 fails=Fails("ResourceExhaustedError", "table 'users' is full")),
        *LOOK,
    ),
}  # fmt: skip

RANGE = {"placement": "range", "num_keys": 8}  # of three ranks: 0 to 2, 3 to 5, 6 and 7
PLACEMENTS = (  # own keys with their rows without a hash index, those of 0 to 7, wrong keys
    ("by range", RANGE, ((5, 2), (3, 0)), (3, 4, 5),
     ((0, "key 0 belongs to rank 0 of 3"), (7, "belongs to rank 2"), (8, "outside of its range"))),
    ("on this rank", {"placement": "one_rank", "owner_rank": 1}, ((7, 7), (0, 0)), range(8),
     ((8, "outside of its range"), (-1, "outside of its range"))),
    ("on another rank", {"placement": "one_rank", "owner_rank": 2}, (), (),
     ((0, "key 0 belongs to rank 2 of 3"), (8, "outside of its range"))),
    ("on every rank", {"placement": "replicated"}, ((7, 7), (0, 0)), range(8),
     ((8, "outside of its range"),)),
    ("by modulo", {}, ((22, 7), (1, 0)), (1, 4, 7),
     ((0, "key 0 belongs to rank 0"), (25, "outside of its range"))),
)  # fmt: skip

PLACED = {
    f"a table {where}, {index} a hash index": Script(
        Spec(num_ranks=3, rank=1, use_hash_index=index == "with", slots=GROUP.slots, **placement),
        call("find", [key for key, _ in own], insert=True,
             gives=[row for _, row in own] if index == "without" else range(len(own))),
        *(call("find", [key], insert=insert, fails=Fails(INVALID, pattern))
          for key, pattern in (wrong if index == "without" else ()) for insert in (True, False)),
        call("contents"),
        call("load", np.arange(16).reshape(8, 2)),
        call("contents", gives=[
            list(part_of_eight),
            np.arange(16).reshape(8, 2)[list(part_of_eight)],
            np.full([len(part_of_eight), 3], 0.5),
        ]),
        call("write_files", range(8), np.arange(16).reshape(8, 2)),
        call("restore"),
        call("contents"),
        call("rows_in_use"),
    )
    for where, placement, own, part_of_eight, wrong in PLACEMENTS
    for index in ("with", "without")
}  # fmt: skip

REFUSED = {
    "placements that cannot be": Script(
        dataclasses.replace(GROUP, beside=()),
        *(call("initialize", fails=Fails(INVALID, pattern), placement_kind=kind, num_ranks=2,
               **options)
          for kind, options, pattern in (
              ("one_rank", {"owner_rank": 2}, "owner_rank must be .* got 2"),
              ("range", {"num_keys": 0}, "num_keys must be at least 1"),
              ("modulo", {"rank": 2}, "rank must be .* got 2"),
          )),
    ),
}  # fmt: skip

CASES = {**GROUPS, **PLACED, **REFUSED}
