# SPDX-License-Identifier: Apache-2.0
"""Scripts of tables that count their keys: filters, what is known of keys, and eviction."""

import dataclasses

import numpy as np

from tests.conformance.scripts import Fails, Script, Slot, Spec, call

INVALID = "InvalidArgumentError"
CONSTANT = Spec(first_value="constant", low_or_mean=1.5, slots=(Slot("m", 1, 0.5),), history={})
FILTER = dataclasses.replace(CONSTANT, history={"filter_freq": 3, "value_without_row": -2.0})
EVICTS = dataclasses.replace(CONSTANT, history={"evicts": True})
FILTERS_AND_EVICTS = dataclasses.replace(CONSTANT, history={"filter_freq": 2, "evicts": True})
BLOOM = {"bloom_counters": 1000, "bloom_hashes": 4, "bloom_counter_bytes": 2}
UNFILTERED = dataclasses.replace(CONSTANT, history=None)
LOOK = call("contents")
_IN_BUCKETS = {  # four of them
    "x-keys": np.array([8, 5]), "x-values": np.ones([2, 2], np.float32),
    "x-versions": np.array([-1, 7]), "x-freqs": np.array([-1, 4]),
    "x-partition_offset": np.array([0, 1, 2, 2, 2], np.int32),
    "x-keys_filtered": np.array([4, 6]), "x-versions_filtered": np.array([-1, 2]),
    "x-freqs_filtered": np.array([-1, 2]),
    "x-partition_filter_offset": np.array([0, 1, 1, 2, 2], np.int32),
}  # fmt: skip


def known(keys, counts, steps):
    return call("history", keys, gives=[counts, steps])


COUNTS = {
    "keys are counted, and get rows at once": Script(
        CONSTANT,
        call("admit", [5, 7], [2, 1], step=3, gives=[0, 1]),
        known([7, 5, 9], [1, 2, 0], [3, 3, -1]),
        call("admit", [7, 9], [4, 1], step=8, gives=[1, 2]),
        known([7, 5, 9], [5, 2, 1], [8, 3, 8]),
        call("waiting", gives=[[], [], []]),
        LOOK,
    ),
    "a lookup counts nothing": Script(
        CONSTANT,
        call("find", [5]),
        call("pool", [5], [0], [0, 1], gives=[[1.5, 1.5]]),
        known([5], [0], [-1]),
        call("size", gives=0),
    ),
    "a row that came otherwise": Script(
        CONSTANT, call("find", [5], insert=True), known([5], [1], [-1]),
        call("admit", [5], [1], step=2), known([5], [2], [2]),
    ),
    "a restored table knows its rows as admitted": Script(
        FILTER,
        call("admit", [5], [4], step=2),
        call("restore_rows", [8, 9], np.ones([2, 2]), {"m": np.ones([2, 1])}),
        known([5, 8, 9], [0, 3, 3], [-1, -1, -1]),
        call("import_history", [9, 8, 4], [7, 6, 2], [1, 2, 3]),
        known([4, 8, 9], [2, 6, 7], [3, 2, 1]),
        call("admit", [4], [1], step=5, gives=[2]),
        known([4], [3], [5]),
        call("find", [8, 9, 4], gives=[0, 1, 2]),
        LOOK,
    ),
    **{f"the history comes back from buckets: a filter of {freq}": Script(
        dataclasses.replace(FILTER, history={"filter_freq": freq}),
        call("restore_buckets", _IN_BUCKETS),
        known([5, 8, 4, 6], [4, freq, 0, 2], [7, -1, -1, 2]),
        call("admit", [6, 5], [1, 1], step=9, gives=[2 if freq == 3 else -2, 1]),
        known([5, 6], [5, 3], [9, 9]),
        LOOK,
    ) for freq in (3, 5)},
    "without a filter nothing waits": Script(
        CONSTANT, call("import_history", [4], [2], [3]), known([4], [0], [-1])
    ),
    "a table made again has forgotten": Script(
        FILTER, call("admit", [5, 6], [4, 1]), call("initialize"), known([5, 6], [0, 0], [-1, -1]),
        call("admit", [6], [3]), call("find", [6], gives=[0]),
    ),
    "a table without a history": Script(
        UNFILTERED,
        call("admit", [5], [1], fails=Fails("FailedPreconditionError", "keeps no history")),
        call("history", [5], fails="FailedPreconditionError"),
        call("evict", 3, fails="FailedPreconditionError"),
    ),
    "counts of other keys": Script(
        CONSTANT,
        call("admit", [5, 6], [1], fails=Fails(INVALID, "2 keys, but 2 row ids and 1 counts")),
        call("import_history", [5, 6], [1], [1, 1], fails=Fails(INVALID, "counts must have")),
    ),
    "impossible sizes": Script(
        CONSTANT,
        call("initialize", bloom_counters=9, bloom_counter_bytes=3, filter_freq=2,
             fails=Fails(INVALID, "9 counters of 3 bytes")),
        call("initialize", keeps_history=False, evicts=True, fails=INVALID),
    ),
}  # fmt: skip

FILTERED = {
    f"a filter with {how}": Script(
        dataclasses.replace(FILTER, history={**FILTER.history, **sizes}),
        call("pool", [5, 6], [0, 1], [0, 2], gives=[[-4.0, -4.0]]),
        call("admit", [5, 6], [2, 1], step=1),  # ids of keys that wait
        call("size", gives=0),
        call("contents", gives=[[], np.zeros([0, 2]), np.zeros([0, 1])]),
        call("history", [5, 6, 7], gives=[[2, 1, 0], steps_of_waiting]),
        call("admit", [6, 5, 7], [1, 1, 1], step=2),
        call("find", [5, 6, 7], gives=[0, -1, -1]),
        call("history", [5], gives=[[3], [2]]),
        call("pool", [5, 6], [0, 1], [0, 2], gives=[[-0.5, -0.5]]),
        call("admit", [5, 6], [1, 1], step=3, gives=[0, 1]),
        call("admit", [7], [1], step=3),
        call("find", [5, 6, 7], gives=[0, 1, -1]),
        call("history", [5, 6], gives=[[4, 3], [3, 3]]),
        LOOK,
        # Of a key that another step has given a row since the lookup, the row is trained.
        call("admit", [5], [1], row_ids=[-1], gives=[0]),
    )
    for how, sizes, steps_of_waiting in (
        ("exact counts", {}, [1, 1, -1]),
        ("a counting Bloom filter", BLOOM, [-1, -1, -1]),
    )
}

GIVEN = {
    "rows that are given go to the keys that are admitted": Script(
        FILTER,
        call("admit", [5, 6, 7], [1, 3, 4], absent_rows=[[1, 1], [2, 2], [3, 3]]),
        call("find", [6, 7], gives=[0, 1]),
        call("contents", gives=[[6, 7], [[2, 2], [3, 3]], [[0.5], [0.5]]]),
        call("admit", [5, 7, 8], [2, 1, 1], row_ids=[-1, 1, -1], absent_rows=[[4, 4], [5, 5]]),
        call("contents", gives=[[6, 7, 5], [[2, 2], [3, 3], [4, 4]], [[0.5]] * 3]),
        call("admit", [9, 10], [3, 3], absent_rows=[[1, 1]],
             fails=Fails(INVALID, r"rows of shape \[1,2\], expected \[2, 2\]")),
    ),
    "a key that has lost its row and has none given": Script(
        CONSTANT, call("admit", [5, 6], [1, 1], row_ids=[0, -1], absent_rows=[[4, 4]]),
        call("find", [5, 6], gives=[-1, 0]),
        call("admit", [5, 6], [1, 1], row_ids=[0, 0], absent_rows=np.zeros([0, 2]), gives=[-1, 0]),
        call("admit", [5, 6], [1, 1], row_ids=[0, 0], absent_rows=[[4, 4]],
             fails=Fails(INVALID, r"rows of shape \[1,2\], expected \[0, 2\]")),
        call("contents", gives=[[6], [[4, 4]], [[0.5]]]),
    ),
    "a full table counts nothing": Script(
        dataclasses.replace(FILTER, capacity=2),
        call("admit", [5, 6], [3, 3]),
        call("admit", [7, 5, 8], [3, 1, 1], fails="ResourceExhaustedError"),
        known([7, 5, 8], [0, 3, 0], [-1, 0, -1]),
        call("admit", [7, 8], [2, 2], step=4),
        known([7, 8], [2, 2], [4, 4]),
    ),
    "many keys wait": Script(
        dataclasses.replace(FILTER, capacity=4000),
        call("admit", np.arange(3000), np.arange(3000) % 3 + 1, step=1),
        call("size", gives=1000),
        call("waiting"),
        call("admit", np.arange(1, 3000, 3), np.ones(1000), step=2),
        call("size", gives=2000),
        call("admit", np.arange(5000, 6500), np.ones(1500), step=3),
        call("waiting"),
        call("export"),
    ),
}  # fmt: skip

EVICTED = {
    "old keys go": Script(
        EVICTS,
        call("admit", [5, 6], [1, 1], step=1),
        call("admit", [7], [1], step=4),
        call("admit", [6], [1], step=3),
        call("evict", 4, steps_to_live=3, gives=0),
        call("evict", 5, steps_to_live=3, gives=1),
        call("find", [5, 6, 7], gives=[-1, 1, 2]),
        known([5, 6], [0, 2], [-1, 3]),
        call("apply", "sgd", [[1, 1]], [1], {"learning_rate": 1.0}),
        call("admit", [5, 8], [1, 1], step=6, gives=[0, 3]),
        known([5, 8], [1, 1], [6, 6]),
        LOOK,
    ),
    "rows start as at first when another key gets them": Script(
        EVICTS,
        call("admit", [5, 6], [1, 1], step=1),
        call("apply", "sgd", [[1, 1], [2, 2]], [0, 1], {"learning_rate": 1.0}),
        call("scatter", "Update", [0, 1], [[9], [9]], plane="m"),
        call("evict", 9, steps_to_live=1, gives=2),
        call("size", gives=0),
        call("admit", [7], [1], step=9, gives=[1]),
        call("contents", gives=[[7], [[1.5, 1.5]], [[0.5]]]),
    ),
    "light rows go": Script(
        dataclasses.replace(EVICTS, capacity=3),
        call("insert_rows", [5, 6, 7], [[1, 1], [0.5, 0.5], [2, 0]]),
        call("evict", 0, l2_threshold=0.25, gives=0),
        call("evict", 0, l2_threshold=1.0, gives=1),
        call("export", gives=[[5, 7], [[1, 1], [2, 0]]]),
        call("admit", [8], [1], gives=[1]),
    ),
    "a step that is not known begins with the first eviction": Script(
        FILTERS_AND_EVICTS,
        call("import_history", [5], [1], [-1]),
        call("find", [6], insert=True),
        call("evict", 7, steps_to_live=2, gives=0),
        known([5, 6], [1, 2], [7, 7]),
        call("evict", 9, steps_to_live=2, gives=0),
        call("evict", 10, steps_to_live=2, gives=1),
        known([5, 6], [0, 0], [-1, -1]),
    ),
    "keys that wait go, too": Script(
        FILTERS_AND_EVICTS,
        call("admit", [5, 6], [1, 1], step=1),
        call("admit", [6], [1], step=2),
        call("admit", [7], [1], step=3),
        call("evict", 4, steps_to_live=2, gives=0),
        call("waiting", gives=[[7], [1], [3]]),
        call("admit", [5, 8, 9], [1, 1, 1], step=4),
        call("waiting"),
        call("find", [5, 6], gives=[-1, 0]),
    ),
    "a key that a Bloom filter has let in counts as one that it just lets in": Script(
        dataclasses.replace(FILTERS_AND_EVICTS, history={**FILTERS_AND_EVICTS.history, **BLOOM}),
        call("admit", [5, 6], [9, 2], step=1),
        call("admit", [5], [3], step=2),
        call("evict", 9, steps_to_live=2, gives=2),
        known([5, 6, 7], [2, 2, 0], [-1, -1, -1]),
        call("admit", [5, 6], [1, 4], step=9),
        known([5, 6], [3, 6], [9, 9]),
    ),
    "a table that does not evict": Script(
        CONSTANT, call("evict", 3, fails=Fails("FailedPreconditionError", "not made to evict"))
    ),
    "nothing to evict": Script(
        EVICTS, call("evict", 3, steps_to_live=1, gives=0), call("evict", 3, l2_threshold=1.0)
    ),
}

CASES = {**COUNTS, **FILTERED, **GIVEN, **EVICTED}
