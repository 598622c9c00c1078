# SPDX-License-Identifier: Apache-2.0
"""Scripts of tables with a limit of keys, beyond which the least recently used ones go."""

import dataclasses

import numpy as np

from tests.conformance.history_cases import CONSTANT
from tests.conformance.scripts import Fails, Script, call

LIMITED = dataclasses.replace(CONSTANT, capacity=20, history={"max_keys": 3})
FULL = "ResourceExhaustedError"
INVALID = "InvalidArgumentError"
LOOK = call("contents")


def inserted(keys, rows=None, **options):
    return call("find", keys, insert=True, gives=rows, **options)


EVICTED = {
    "a full table evicts the least recently used keys": Script(
        LIMITED,
        inserted([5, 6, 7], [0, 1, 2]),
        inserted([5], [0]),
        inserted([8], [3]),
        call("find", [5, 6, 7, 8], gives=[0, -1, 2, 3]),
        inserted([9, 9, 8], [1, 1, 3]),
        call("find", [5, 7, 9, 8], gives=[0, -1, 1, 3]),
        call("size", gives=3),
        LOOK,
    ),
    "of keys used at once the lowest go first": Script(
        LIMITED,
        inserted([7, -5, 6]),
        inserted([9], are_distinct=True),
        call("find", [7, -5, 6], gives=[0, -1, 2]),
        inserted([10, 11]),
        call("contents", gives=[[10, 9, 11], [[1.5, 1.5]] * 3, [[0.5]] * 3]),
    ),
    "rows of evicted keys start as at first": Script(
        LIMITED,
        inserted([5, 6, 7]),
        call("apply", "sgd", [[1, 1], [2, 2], [3, 3]], [0, 1, 2], {"learning_rate": 1.0}),
        call("scatter", "Update", [0, 1, 2], [[9], [9], [9]], plane="m"),
        inserted([8, 9]),
        inserted([10], [1]),
        call("contents", gives=[[10, 8, 9], [[1.5, 1.5]] * 3, [[0.5]] * 3]),
    ),
    "more keys than there is room for": Script(
        LIMITED,
        inserted([5, 6, 7, 8], fails=Fails(FULL, "holds 0 keys of at most 3, 4 new keys came")),
        inserted([5, 6, 7]),
        inserted([5, 8, 9, 10], fails=Fails(FULL, "only 2 keys, which this step does not use")),
        inserted([5, 8, 9], [0, 3, 4]),
        LOOK,
    ),
    "a lookup that fails has used no key": Script(
        LIMITED,
        inserted([5, 6, 7]),
        inserted([5, 5, 8, 9, 10], fails=FULL),
        call("insert_rows", [5, 8, 9, 10], np.ones([4, 2]), fails=FULL),
        inserted([8]),
        call("find", [5, 6, 7, 8], gives=[-1, 1, 2, 3]),
    ),
    "of a step with several lookups all keys stay": Script(
        dataclasses.replace(LIMITED, beside=(LIMITED,)),
        inserted([5, 6, 7]),
        call("together", (0, inserted([8])), (0, inserted([9])), (1, inserted([5, 6, 7])),
             (0, inserted([8, 10])), gives=[[3], [4], [0, 1, 2], [3, 5]]),
        call("contents", gives=[[8, 9, 10], [[1.5, 1.5]] * 3, [[0.5]] * 3]),
        inserted([12], [2]),
    ),
    "other ways to insert keys": Script(
        LIMITED,
        call("insert_rows", [5, 6], [[1, 1], [2, 2]], gives=[0, 1]),
        call("insert_absent", [7, 5], [-1, 0]),
        call("insert_rows", [5, 8], [[3, 3], [4, 4]], gives=[0, 3]),
        call("contents", gives=[[5, 7, 8], [[1, 1], [1.5, 1.5], [4, 4]], [[0.5]] * 3]),
        call("insert_absent", [9], [-1]),
        call("find", [5, 7, 8, 9], gives=[0, -1, 3, 1]),
        call("insert_absent", [10, 9, 11], [-1, 1, -1], [[5, 5], [6, 6]]),
        call("contents", gives=[[9, 10, 11], [[1.5, 1.5], [5, 5], [6, 6]], [[0.5]] * 3]),
        call("insert_absent", [12, 9], [-1, 1], [[1, 1], [2, 2]],
             fails=Fails(INVALID, r"rows of shape \[2,2\], expected \[1, 2\]")),
    ),
    "which lookups use keys": Script(
        LIMITED,
        inserted([5, 6, 7]),
        call("find", [5, 4], uses_keys=True, gives=[0, -1]),
        call("find", [6]),
        call("pool", [6], [0], [0, 1]),
        inserted([8]),
        call("find", [5, 6, 7, 8], gives=[0, -1, 2, 3]),
    ),
    "a lookup that uses keys of a table without a limit": Script(
        CONSTANT, inserted([5]), call("find", [5, 6], uses_keys=True, gives=[0, -1]),
        call("history", [5, 6], gives=[[1, 0], [-1, -1]]),
    ),
    "a table of restored keys": Script(
        LIMITED,
        call("restore_rows", [8, 9, 7, 6], np.ones([4, 2]), {"m": np.ones([4, 1])}),
        call("size", gives=4),
        inserted([9], [1]),
        call("size", gives=3),
        call("import_history", [9, 7, 8], [1, 1, 1], [30, 10, 20]),
        inserted([5]),
        call("find", [9, 8, 7, 5], gives=[1, 0, -1, 3]),
        inserted([4]),
        call("find", [9, 8, 5, 4], gives=[1, -1, 3, 2]),
    ),
    "a table made again has forgotten": Script(
        LIMITED, inserted([5, 6, 7]), call("initialize"), inserted([7, 8, 9], [0, 1, 2]), LOOK,
    ),
    "many keys": Script(
        dataclasses.replace(LIMITED, capacity=20000, history={"max_keys": 4000}),
        *(inserted(np.arange(first, first + 1500) * 7919 % 6007) for first in range(0, 9000, 700)),
        call("size", gives=4000),
        LOOK,
    ),
    "a table without rows to spare": Script(
        dataclasses.replace(LIMITED, capacity=4),
        inserted([5, 6, 7]),
        inserted([8, 9], fails=FULL),
        inserted([8]),
        inserted([9], [0]),
        LOOK,
    ),
}  # fmt: skip

ROOM = {
    "room is made before new keys come": Script(
        LIMITED,
        inserted([5, 6, 7]),
        call("apply", "sgd", [[1, 1]], [1], {"learning_rate": 1.0}),
        call("make_room", [8], gives=[[5], [[1.5, 1.5]]]),
        call("make_room", [8, 7], gives=[[], np.zeros([0, 2])]),
        inserted([8], [0]),
        call("make_room", [4, 3, 8], gives=[[6, 7], [[0.5, 0.5], [1.5, 1.5]]]),
        call("contents", gives=[[8], [[1.5, 1.5]], [[0.5]]]),
        call("make_room", [1, 2, 3, 4], fails=FULL),
    ),
    "room in a table without a limit": Script(
        CONSTANT, call("make_room", [1, 2], gives=[[], np.zeros([0, 2])])
    ),
    "room in a table without a history": Script(
        dataclasses.replace(CONSTANT, history=None),
        call("make_room", [1, 2], fails="FailedPreconditionError"),
    ),
    "a limit beside another filter or eviction": Script(
        LIMITED,
        call("initialize", evicts=True, fails=Fails(INVALID, "max_keys needs evicts=false")),
        call("initialize", filter_freq=2, fails=INVALID),
        call("initialize", keeps_history=False, fails=INVALID),
    ),
}

DRAWN = {
    "keys are drawn by the seed, the key and the draws before": Script(
        dataclasses.replace(CONSTANT, history=None),
        call("draw", [1, 2, 3], 0.0, gives=[False] * 3),
        call("draw", [1, 2, 3], 1.0, gives=[True] * 3),
        call("draw", np.arange(40), 0.5, seed=3),
        call("draw", np.arange(40), 0.5, seed=3),
        call("draw", [-1, -1, 2**62, -(2**62)], 0.5, seed=-4),
        call("initialize"),
        call("draw", [5, 5], 0.5, gives=[True, True]),
    ),
}

CASES = {**EVICTED, **ROOM, **DRAWN}
