# SPDX-License-Identifier: Apache-2.0
"""Scripts of gradients, optimizers and updates by row id."""

import dataclasses

import numpy as np

from tests.conformance.scripts import Fails, Script, Slot, Spec, call

INVALID = "InvalidArgumentError"
STATES = (
    *(Slot("m_and_v", 4), Slot("accumulator", 2, 0.1), Slot("linear", 2), Slot("momentum", 2)),
    Slot("of_row", 1, 0.1),
)
HASH = Spec(slots=STATES)
DIRECT = dataclasses.replace(HASH, use_hash_index=False)
WHERE = (("with a hash index", HASH), ("without a hash index", DIRECT))
RANDOM = np.random.default_rng(6)
FEW = RANDOM.integers(0, 3, 9)
LONG = RANDOM.integers(0, 3, 20_000)
THREE = RANDOM.normal(size=(3, 2))
INSERT = call("find", [0, 2, 4], insert=True)
LOOK = call("contents")

SGD = {"learning_rate": 0.1}
ADAM = {"step_size": 0.1, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7}
FTRL = {**SGD, "l1": 0.01, "l2": 0.02, "l2_shrinkage": 0.03}
HALVES = {"learning_rate": 0.5, "momentum": 0.5}
# Each rule's hyperparameters and slots.
RULES = {
    "sgd": (SGD, ()),
    "adagrad": ({"learning_rate": 0.1, "epsilon": 1e-7}, ("accumulator",)),
    "row_wise_adagrad": ({"learning_rate": 0.1, "epsilon": 1e-7}, ("of_row",)),
    "adam": (ADAM, ("m_and_v",)),
    "adamw": ({**ADAM, "weight_decay": 0.05}, ("m_and_v",)),
    "decay": ({"rate": 0.9, "least": 0.1}, ("accumulator",)),
    "ftrl": (FTRL, ("accumulator", "linear")),
    "ftrl_group_lasso": ({**FTRL, "l1": 0.5}, ("accumulator", "linear")),
    "momentum": ({**SGD, "momentum": 0.9}, ("momentum",)),
    "nesterov": ({**SGD, "momentum": 0.9}, ("momentum",)),
    "rmsprop": ({**SGD, "rho": 0.9, "momentum": 0.5, "epsilon": 1e-7}, ("accumulator", "momentum")),
}


def apply(rule, gradients, row_ids, **options):
    """The rule with its own hyperparameters and states, unless others are given."""
    numbers, states = RULES[rule]
    options = {"numbers": numbers, "states": states, **options}
    return call("apply", rule, gradients, row_ids, **options)


def each(gradients, row_ids, rules=tuple(RULES), **options):
    """Each rule with these gradients, for their rows and for all rows in use."""
    return [
        apply(rule, gradients, row_ids, rows_to_update=rows, **options)
        for rule in rules
        for rows in ("given", "in_use")
    ]


def each_fails(fails, calls):
    return [dataclasses.replace(one_call, expected=fails) for one_call in calls]


# Of more than 32 gradients of one row, the engines add up some in another order.
MERGED = {
    f"merged: {combiner} of {len(inverse)}, {dim} numbers": Script(
        HASH,
        call("merge", RANDOM.normal(size=(num_bags, dim)), 4, inverse, splits, combiner),
        *(() if combiner == "none" else (
            call("merge", RANDOM.normal(size=(num_bags, dim)), 4, inverse, splits, combiner,
                 RANDOM.uniform(0.5, 2, len(inverse))),
            call("merge", RANDOM.normal(size=(num_bags, dim)), 4, inverse, splits, combiner,
                 factors=RANDOM.normal(size=num_bags)),
        )),
        call("merge", RANDOM.normal(size=(2, dim)), 2, [0, 1], combiner="none"),
        call("merge", np.ones([2, dim]), 2, [1, 0], [0, 1, 2], "mean", factors=[0.25, 3],
             gives=[[3] * dim, [0.25] * dim]),
        call("merge", np.ones([1, dim]), 2, [1, 0], [0, 2], "mean", [1, 3],
             counted=np.zeros([2, dim]), gives=[[0.75] * dim, [0.25] * dim]),
        call("merge", np.zeros([0, dim]), 2, [], [0], gives=np.zeros([2, dim])),
        # 20,000 numbers of both signs in another order: errors are of their sizes, not the sum's.
        tolerance=1e-3 if len(inverse) > 32 else 0,
    )
    for dim in (1, 3, 17)
    for inverse, combiner, splits, num_bags in (
        (FEW, "none", (), 9), (FEW, "sum", (0, 2, 2, 7, 9), 4), (FEW, "mean", (0, 5, 9), 2),
        (LONG, "none", (), 20_000), (LONG, "sum", (0, 2, 2, 9_000, 20_000), 4),
        (LONG, "mean", (0, 5, 20_000), 2),
    )
}  # fmt: skip

TRAINED = {
    f"{rule} {where}": Script(
        spec,
        INSERT,
        *each(THREE, row_ids, [rule]),
        *each(THREE, row_ids, [rule], are_distinct=True),
        *each(THREE, row_ids[:1] * 3, [rule]),
        LOOK,
        *each(np.ones([0, 2]), [], [rule]),
        *each(THREE[:1] * np.array([[0.0, -0.0]]), row_ids[1:2], [rule]),
        *each(np.full([1, 2], np.nan), row_ids[1:2], [rule]),
        *each(np.full([1, 2], np.inf), row_ids[2:], [rule]),
        LOOK,
    )
    for (where, spec), row_ids in zip(WHERE, ([0, 2, 1], [4, 0, 2]))
    for rule in RULES
}

RULES_CASES = {
    "what rules compute": Script(
        dataclasses.replace(HASH, first_value="constant", low_or_mean=1.0),
        INSERT,
        apply("sgd", [[1, -2]], [1], numbers={"learning_rate": 0.5}),
        call("read_rows", gives=[[1, 1], [0.5, 2], [1, 1], *np.zeros([5, 2])]),
        apply("momentum", [[2, 4]], [0], numbers=HALVES),
        apply("momentum", [[2, 4]], [0], numbers=HALVES, rows_to_update="in_use"),
        call("read_rows", gives=[[-1.5, -4], [0.5, 2], [1, 1], *np.zeros([5, 2])]),
        apply("momentum", np.zeros([0, 2]), [], numbers=HALVES, rows_to_update="in_use"),
        call("read_rows", gives=[[-2.25, -5.5], [0.5, 2], [1, 1], *np.zeros([5, 2])]),
    ),
    "states side by side, or each in a slot": Script(
        Spec(slots=(*STATES, Slot("both", 4, 0.1), Slot("m", 2, 0.1))),
        INSERT,
        *each(THREE, [0, 2, 1], ["ftrl", "adam", "rmsprop"], states=["both"]),
        *each(THREE, [0, 2, 1], ["ftrl", "adam", "rmsprop"], states=["m", "accumulator"]),
        LOOK,
    ),
    "rows of many numbers": Script(
        Spec(dim=19, slots=tuple(
            dataclasses.replace(slot, width=max(19 * (slot.width // 2), 1)) for slot in STATES)),
        INSERT,
        *each(RANDOM.normal(size=(3, 19)), [0, 2, 1]),
        *each(RANDOM.normal(size=(5, 19)), [0, 2, 1, 2, 0]),
        LOOK,
    ),
    **{f"a rule with too few or too many {what}": Script(
        HASH, INSERT, apply(rule, THREE, [0, 1, 2], **options, fails=Fails(INVALID, pattern)), LOOK
    ) for rule, what, options, pattern in (
        ("adam", "hyperparameters", {"numbers": SGD}, "'adam' has the hyperparameters step_size"),
        ("sgd", "numbers", {"numbers": HALVES}, "learning_rate; got learning_rate, momentum"),
        ("adagrad", "states", {"states": []}, "'adagrad' has 1 states, got none"),
        ("adagrad", "variables", {"states": ["accumulator", "momentum"]}, "has 1 states of 2"),
        ("ftrl", "floats of state", {"states": ["accumulator"]}, "has 2 states of 2 floats"),
        ("sgd", "variables for no state", {"states": ["accumulator"]}, "has 0 states of 2"),
    )},
}  # fmt: skip

WRONG = {
    f"gradients {what}: {where}": Script(
        spec, INSERT, *each_fails(fails, each(values, row_ids, **options)), LOOK, only_on=only_on
    )
    for where, spec in WHERE
    for what, values, row_ids, options, only_on, fails in (
        ("of a row beyond those in use", THREE, [0, 7, 2], {}, "",
         Fails(INVALID, "gradient for row 7, but the table has")),
        ("of a row below 0", THREE, [0, -1, 2], {}, "",
         Fails(INVALID, "gradient for row -1, but")),
        ("of no row of this table, said to be distinct", THREE, [0, 7, 2], {"are_distinct": True},
         "cpu", Fails(INVALID, "gradient for row 7, but the table has")),
        ("of a row below 0, said to be distinct", THREE, [0, -1, 2], {"are_distinct": True}, "cpu",
         Fails(INVALID, "gradient for row -1, but")),
        ("of another number of rows", THREE, [0, 1], {}, "",
         Fails(INVALID, r"gradients must have shape \[2, 2\], got \[3,2\]")),
        ("of another width", np.ones([1, 3]), [0], {}, "",
         Fails(INVALID, r"gradients must have shape \[1, 2\], got \[1,3\]")),
    )
}  # fmt: skip

# A GPU would have to wait to see them: it passes them over.
PASSED_OVER = {
    f"gradients of no row of this table are passed over: {rows}": Script(
        Spec(first_value="constant", low_or_mean=1.0, slots=STATES),
        INSERT,
        *(apply(rule, THREE, [3, 7, 2**40], are_distinct=True, rows_to_update=rows)
          for rule in rules),
        call("size", gives=3),
        call("find", range(10, 15), insert=True, gives=range(3, 8)),
        call("contents", gives=[
            [0, 2, 4, *range(10, 15)], np.ones([8, 2]),
            *(np.full([8, slot.width], slot.initial_value) for slot in STATES),
        ]),
        only_on="devices",
    )
    for rows, rules in (("given", RULES), ("in_use", ("sgd", "adagrad", "adam", "momentum")))
}  # fmt: skip

OTHERS = {
    "a row below the last one that no key has": Script(DIRECT, INSERT, *each(THREE[:1], [1]), LOOK),
    "a merge of another number of gradients": Script(
        HASH,
        call("merge", THREE, 1, [0, 0], [0, 1, 2],
             fails=Fails(INVALID, "expected gradients for 2 bags, got 3")),
        call("merge", THREE, 1, [0, 0], combiner="none",
             fails=Fails(INVALID, "expected gradients for 2 bags, got 3")),
    ),
    "an optimizer whose state is not there": Script(
        Spec(),
        INSERT,
        apply("adam", THREE, [0, 1, 2], fails=Fails("FailedPreconditionError", "m_and_v")),
        apply("adagrad", THREE, [0, 1, 2], fails=Fails("FailedPreconditionError", "accumulator")),
    ),
    "an optimizer whose state has another shape": Script(
        Spec(slots=(Slot("m_and_v", 3), Slot("accumulator", 3))),
        INSERT,
        *each_fails(Fails(INVALID, "has . states of 2 floats, got 1 variables, one of width 3"),
                    each(THREE, [0, 1, 2], ["adam", "adagrad"])),
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
        *each(THREE, [0, 1, 2]),
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
        *each(THREE, [0, 1, 2]),
        LOOK,
    ),
    "a value of another shape": Script(
        HASH,
        INSERT,
        call("assign_plane", np.ones([7, 2])),
        call("find", [0], insert=True, fails=Fails(INVALID, "must keep its shape")),
        call("export", fails=Fails(INVALID, "must keep its shape")),
        call("pool", [0], [0], [0, 1], row_ids=[0], fails=Fails(INVALID, "must keep its shape")),
        apply("adagrad", THREE[:1], [0], fails=Fails(INVALID, "must keep its shape")),
        call("restore_rows", [1], [[1, 2]], fails=Fails(INVALID, "must keep its shape")),
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

CASES = {**MERGED, **TRAINED, **RULES_CASES, **WRONG, **PASSED_OVER, **OTHERS}
