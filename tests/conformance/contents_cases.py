# SPDX-License-Identifier: Apache-2.0
"""Scripts that make tables and planes, and that move what a table holds."""

import dataclasses

import numpy as np

from tests.conformance.scripts import Fails, Script, Slot, Spec, call

INVALID = "InvalidArgumentError"
UNINITIALIZED = Fails("FailedPreconditionError", "table 'table' has not been initialized")
MEMORY = "ResourceExhaustedError"
HASH = Spec(slots=(Slot("m", 3, 0.5), Slot("n", 1)))
DIRECT = dataclasses.replace(HASH, use_hash_index=False)
PRESET = dataclasses.replace(
    HASH, capacity=3, first_value="preset", preset=((1, 2), (3, 4), (5, 6))
)
FIVE = call("find", [3, 1, 7, 5, 0], insert=True)
LOOK = call("contents")
RATES = dict.fromkeys(("step_size", "beta1", "beta2", "epsilon"), 1.0)  # of "adam"
ROWS = np.arange(6.0).reshape(3, 2)
OF_SLOTS = {"m": np.full([3, 3], 8.0), "n": np.full([3, 1], 9.0)}
WHERE = (("with a hash index", HASH), ("without a hash index", DIRECT))

NOT_MADE = {
    f"{one_call.method} of a table that is not initialized": Script(
        Spec(is_made=False), dataclasses.replace(one_call, expected=UNINITIALIZED)
    )
    for one_call in (
        call("size"), call("find", [1]), call("find", [1], insert=True), call("export"),
        call("insert_rows", [1], [[1, 2]]), call("pool", [1], [0], [0, 1], row_ids=[0]),
        call("apply", "adam", [[1, 2]], [0], RATES, ["m"]), call("read_rows"),
        call("rows_in_use"), call("contents"), call("restore_rows", [], np.ones([0, 2])),
        call("load", [[1, 2]]), call("preset", np.ones([8, 2])), call("dump"),
    )
}  # fmt: skip

MADE = {
    "a table made again": Script(
        HASH,
        FIVE,
        call("initialize", keep_existing=True),
        call("size", gives=5),
        call("initialize"),
        call("size", gives=0),
        call("read_rows", gives=np.zeros([8, 2])),
        call("find", [3, 9], insert=True, gives=[0, 1]),
        LOOK,
        call("initialize", seed=8),
        FIVE,
        LOOK,
    ),
    "a table made with a wrong rank": Script(
        HASH, FIVE, call("initialize", rank=1, fails=INVALID), LOOK
    ),
    "a table larger than memory": Script(
        HASH, FIVE, call("initialize", dim=2**20, capacity=2**40, fails=MEMORY), LOOK
    ),
    "a table larger than numbers": Script(
        HASH, FIVE, call("initialize", dim=2**20, capacity=2**50, fails=MEMORY), LOOK
    ),
    "a slot larger than numbers": Script(
        Spec(dim=1, capacity=2**40), call("attach", "m", 2**24, fails=MEMORY), call("size")
    ),
    "slots that come after rows": Script(
        HASH,
        FIVE,
        call("attach", "late", 2, 0.25),
        call("attach", "zeros", 2),
        LOOK,
        call("find", [20], insert=True, gives=[5]),
        LOOK,
    ),
    "slots that come after rows, without a hash index": Script(
        DIRECT, FIVE, call("attach", "late", 2, 0.25), LOOK, call("find", [2], insert=True), LOOK
    ),
    "a slot of negative zeros that comes after rows": Script(
        Spec(),
        call("find", [3], insert=True),
        call("attach", "late", 1, -0.0),
        call("find", [4], insert=True),
        LOOK,
    ),
    "a slot attached again": Script(
        HASH,
        FIVE,
        call("scatter", "Add", [0, 1], np.ones([2, 3]), plane="m"),
        call("attach", "m", 3, 0.5, keep_existing=True),
        LOOK,
        call("attach", "m", 3, 0.75),
        LOOK,
    ),
    "a slot detached": Script(
        HASH, FIVE, call("detach", "m"), LOOK, call("find", [20], insert=True), call("export")
    ),
    "a slot of another capacity": Script(
        HASH,
        FIVE,
        call("attach", "late", 2, capacity=7, fails=Fails(INVALID, "slot late has 7 rows, but")),
        LOOK,
    ),
    "a slot of another capacity in the place of one": Script(
        HASH, FIVE, call("attach", "m", 3, capacity=7, fails=Fails(INVALID, "has 7 rows")), LOOK
    ),
    "a slot before its table": Script(
        dataclasses.replace(HASH, is_made=False), call("initialize"), FIVE, LOOK
    ),
    "a preset of another shape": Script(
        PRESET,
        call("find", [8], insert=True),
        call("preset", np.ones([2, 2]), fails=Fails(INVALID, "the initializer returned values")),
        call("preset", [[1, 2]] * 4, fails=Fails(INVALID, "the initializer returned values")),
        call("find", [9], insert=True),
        LOOK,
    ),
    "a preset for rows in use": Script(HASH, FIVE, call("preset", np.ones([8, 2])), LOOK),
    "a slot read as a whole": Script(
        Spec(capacity=4, slots=(Slot("m", 3, 0.5),)),
        call("find", [3, 4], insert=True),
        call("read_rows", "m", gives=[[0.5] * 3] * 2 + [[0] * 3] * 2),
    ),
    "rows pooled from a slot": Script(
        Spec(slots=(Slot("m", 2, 0.5),)),
        FIVE,
        call("pool", [3], [0], [0, 1], rows="m", gives=[[0.5, 0.5]]),
    ),
}  # fmt: skip

READ = {
    f"contents {where}": Script(
        spec,
        call("export"),
        call("contents"),
        FIVE,
        call("export"),
        call("contents"),
        call("rows_in_use"),
        call("save_buckets", 2, ["n", "m"]),
        call("save_buckets", 2, ["m"], fails=Fails("FailedPreconditionError", "2 optimizer slots")),
        call("save_buckets", 2, ["m", "o"], fails=Fails("FailedPreconditionError", "slot 'o'")),
        call("dump"),
        call("read_rows"),
        call("size"),
    )
    for where, spec in WHERE
}  # fmt: skip

IMPORTED = {
    f"import {where}": Script(
        spec,
        FIVE,
        call("restore_rows", [6, 2, 4], ROWS, OF_SLOTS),
        LOOK,
        call("find", [6, 3], gives=[0 if spec.use_hash_index else 6, -1]),
        call("restore_rows", [6, 2, 4], ROWS, {"n": OF_SLOTS["n"]}),
        call("find", [7], insert=True),
        LOOK,
        call("restore_rows", [], np.ones([0, 2])),
        call("size", gives=0),
        FIVE,
        LOOK,
    )
    for where, spec in WHERE
}  # fmt: skip

_KEYS = np.array([8, 5, -3, 2, 7], np.int64)  # in four buckets
_IN_BUCKETS = {
    "x-keys": _KEYS,
    "x-values": np.arange(10, dtype=np.float32).reshape(5, 2),
    "x-freqs": np.arange(5),
    "x-partition_offset": np.array([0, 1, 3, 4, 5], np.int32),
    "x/m-keys": np.array([7, 9, 5], np.int64),
    "x/m-values": np.arange(9, dtype=np.float32).reshape(3, 3),
}
_OTHERS = {name: value for name, value in _IN_BUCKETS.items() if name != "x/m-keys"}

SERIES = {
    "increments": Script(
        dataclasses.replace(HASH, capacity=20),
        call("save_series"),
        call("find", [5, -1, 2**40, 0], insert=True),
        call("save_series"),
        call("save_series"),
        call("find", [-7, 5], insert=True),
        call("apply", "sgd", [[1, 2]], [2], {"learning_rate": 0.5}),
        call("save_series"),
        call("find", [9, 8, 7], insert=True),
        call("apply", "sgd", [[1, 2]], [0], {"learning_rate": 0.5}),
        call("restore_series"),
        call("contents"),
        call("save_series"),
    ),
}

BUCKETS = {
    "contents in buckets": Script(
        dataclasses.replace(HASH, capacity=20),
        call("save_buckets", 3),
        call("find", [5, -1, 2**40, 0, -7, 3, 2, -6], insert=True),
        call("save_buckets", 3),
        call("save_buckets", 1000),
        call("contents"),
    ),
    "tables restored from buckets": Script(
        HASH,
        FIVE,
        call("restore_buckets", _IN_BUCKETS, ["m"]),
        LOOK,
        call("restore_buckets", _IN_BUCKETS, ["m"], num_parts=2, part=1),
        LOOK,
        call("restore_buckets", _IN_BUCKETS, num_parts=4, part=2),
        LOOK,
        call("restore_buckets", _OTHERS, ["m"], fails=Fails("NotFoundError", "no tensor x/m-keys")),
        call("restore_buckets", {**_IN_BUCKETS, "x/m-values": np.ones([3, 2], np.float32)}, ["m"],
             fails=Fails(INVALID, "rows of 2 floats")),
        LOOK,
        FIVE,
        LOOK,
    ),
}  # fmt: skip

NOT_IMPORTED = {
    f"import of {what}: {where}": Script(
        spec, FIVE, call("restore_rows", keys, rows, slots, fails=fails), LOOK, call("read_rows")
    )
    for where, spec in WHERE
    for what, keys, rows, slots, fails in (
        ("rows of another number", [1, 2], ROWS, {}, Fails(INVALID, "rows to restore have shape")),
        ("rows of another width", [1, 2], np.ones([2, 3]), {}, INVALID),
        ("slots of another width", [1, 2, 4], ROWS, {"m": np.ones([3, 2])}, Fails(INVALID, "x/m")),
        ("an unknown slot", [1, 2, 4], ROWS, {"o": ROWS}, "FailedPreconditionError"),
        ("a key that comes twice", [1, 2, 1], ROWS, {}, Fails(INVALID, "key 1 appears twice")),
        ("too many keys", range(9), np.ones([9, 2]), {}, MEMORY),
    )
}  # fmt: skip

REPLACED = {
    "import of keys of another rank, too": Script(
        Spec(use_hash_index=False, num_ranks=2),
        call("find", [4, 0], insert=True),
        call("restore_rows", [2, 3], ROWS[:2]),
        call("contents", gives=[[2], ROWS[:1]]),
    ),
    "import of a key out of range": Script(
        DIRECT,
        FIVE,
        call("restore_rows", [1, 8], ROWS[:2], fails=Fails(INVALID, "key 8 is")),
        LOOK,
    ),
    "import of a key that is no uint32": Script(
        Spec(key_dtype="uint32"),
        FIVE,
        call("restore_rows", [1, 2**32], ROWS[:2], fails=Fails(INVALID, "is not a uint32")),
        LOOK,
    ),
    "import of what was preset": Script(
        PRESET,
        call("find", [7, 8], insert=True),
        call("scatter", "Update", [0, 1], np.ones([2, 2])),
        call("restore_rows", [20], [[9, 9]]),
        call("find", [8], insert=True, gives=[1]),
        LOOK,
        call("read_rows", gives=[[9, 9], [3, 4], [5, 6]]),
    ),
    "load": Script(
        HASH,
        FIVE,
        call("load", ROWS),
        LOOK,
        call("load", np.ones([9, 2]), fails=Fails(MEMORY, "9 keys to restore")),
        call("load", np.ones([2, 3]), fails=Fails(INVALID, "values must have shape")),
        call("load", np.ones([0, 2]), fails=Fails(INVALID, "values must have shape")),
        call("load", np.ones(2), fails=Fails(INVALID, "values must have shape")),
        FIVE,
        LOOK,
    ),
    "load without a hash index, on a rank of two": Script(
        Spec(use_hash_index=False, num_ranks=2, rank=1, slots=HASH.slots),
        call("find", [5], insert=True),
        call("load", np.arange(10).reshape(5, 2)),
        LOOK,
        call("load", np.ones([17, 2])),
        LOOK,
        call("load", np.ones([18, 2]), fails=MEMORY),
        LOOK,
    ),
    **{f"{what} leaves no rows of keys that are gone": Script(
        HASH, FIVE, *replace, call("read_rows", gives=[*ROWS, *np.zeros([5, 2])])
    ) for what, replace in (
        ("import", [call("restore_rows", [6, 2, 4], ROWS)]),
        ("load", [call("load", ROWS)]),
        ("restore", [call("write_files", [6, 2, 4], ROWS), call("restore")]),
    )},
}  # fmt: skip

FILES = {
    **{f"files {where}": Script(
        spec,
        FIVE,
        call("scatter", "Update", [0], [[7, 7]]),
        call("dump"),
        call("find", [2], insert=True),
        call("restore"),
        LOOK,
        call("write_files", [6, 2, 4], ROWS, key_dtype="uint32"),
        call("restore"),
        LOOK,
        call("write_files", [], []),
        call("restore"),
        call("size", gives=0),
    ) for where, spec in WHERE},
    "files for three ranks": Script(
        Spec(num_ranks=3, rank=1),
        FIVE,
        call("write_files", [1, -2, 3, 4, 0], np.arange(10)),
        call("restore"),
        call("export", gives=[[1, -2, 4], [[0, 1], [2, 3], [6, 7]]]),
    ),
    **{f"{what} to restore": Script(
        spec, FIVE, call("write_files", keys, rows, key_dtype="int64"),
        call("restore", fails=fails), LOOK,
    ) for what, spec, keys, rows, fails in (
        ("rows of another width", HASH, [1, 2], np.ones([2, 3]), Fails(INVALID, "not one key of")),
        ("half a row", HASH, [1, 2], np.ones(3), Fails(INVALID, "not one key of 8 or 4 bytes")),
        ("a key that comes twice", HASH, [1, 1], ROWS[:2], Fails(INVALID, "appears twice")),
        ("too many keys", HASH, range(9), np.ones([9, 2]), MEMORY),
        ("a key out of range", DIRECT, [1, 9], ROWS[:2], Fails(INVALID, "key 9 is outside")),
        ("a key that is no uint32", Spec(key_dtype="uint32"), [1, -1], ROWS[:2],
         Fails(INVALID, "is not a uint32")),
    )},
    **{f"no file of {part}": Script(
        HASH, FIVE, call("dump"), call("remove", part),
        call("restore", fails=Fails("NotFoundError", f"file_{part}.file")), LOOK,
    ) for part in ("keys", "values")},
    **{f"a changed bit in the file of {part}": Script(
        HASH, FIVE, call("dump"), call("change", part),
        call("restore", fails=Fails("DataLossError", f"file_{part}.file is not as it was")), LOOK,
    ) for part in ("keys", "values")},
    **{f"a folder in the place of {part}": Script(
        HASH, FIVE, call("dump"), call("put_folder", part),
        call("restore", fails=Fails(INVALID, f"file_{part}.file is not a file")), LOOK,
        call("dump", fails="UnknownError"), LOOK,
    ) for part in ("keys", "values")},
    "a dump that fails leaves both files": Script(
        HASH, call("find", [3], insert=True), call("dump"), call("put_folder", "values"),
        call("find", [4], insert=True), call("dump", fails="UnknownError"),
        call("files", gives=[[3, 0, 0, 0, 0, 0, 0, 0], []]),
    ),
}  # fmt: skip

MANY = np.arange(300_000)
UNDER_WAY = {
    **{f"a file that ends early, {what} the first part": Script(
        dataclasses.replace(spec, dim=1, capacity=2**19),
        FIVE,
        call("restore_a_shrinking_file", MANY, MANY, num_rows, fails="DataLossError"),
        call("find", [3, 1, 9], insert=True),
    ) for what, num_rows in (("within", 100), ("after", 200_000)) for spec in (HASH,)},
    **{f"keys that come while {what} is under way": Script(
        Spec(dim=1, capacity=2**19),
        call("while_restoring", what, MANY, MANY[:, None], 1000, gives=0),
    ) for what in ("restore", "load")},
}  # fmt: skip

CASES = {
    **NOT_MADE, **MADE, **READ, **IMPORTED, **SERIES, **BUCKETS, **NOT_IMPORTED, **REPLACED,
    **FILES, **UNDER_WAY,
}  # fmt: skip
