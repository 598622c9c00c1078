# SPDX-License-Identifier: Apache-2.0
"""Maps update ops of stock optimizers to rules of the op library."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import NamedTuple

import tensorflow as tf

from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import constant_value
from sok_compat.tables.rows.row_ids import rows_are_distinct
from sok_compat.tables.table import Table
from sok_compat.training.update_lock import alone


@dataclasses.dataclass(frozen=True, eq=False)
class AppliedRule:
    """A rule, and its tensors from the update op."""

    name: str
    states: list[tf.Tensor]  # handles
    hyperparameters: dict[str, tf.Tensor]  # scalars
    use_locking: bool = False
    rows_to_update: str = "given"  # 'in_use': rows without a gradient get zeros

    def fits(self, table: Table) -> bool:
        """Whether its states are slots of the table, and its hyperparameters float32 scalars."""
        slots = [slot.handle for slot in table.slots]
        return all(any(state is slot for slot in slots) for state in self.states) and all(
            x.shape.rank == 0 and x.dtype == tf.float32 for x in self.hyperparameters.values()
        )

    def apply(self, table: Table, gradients: tf.Tensor, row_ids: tf.Tensor) -> tf.Operation:
        """Returns the op that applies the rule to rows of a table; gradients of repeated rows are
        added up first."""
        update = Update(self, table, gradients, row_ids)
        if not self.use_locking:
            return apply_together([update])
        after = [gradients, row_ids, *self.hyperparameters.values()]
        return alone(table, lambda: apply_together([update]), after)


class Update(NamedTuple):
    """A rule to apply to rows of a table."""

    rule: AppliedRule
    table: Table
    gradients: tf.Tensor  # float32 [n, dim]
    row_ids: tf.Tensor  # int64 [n]


def apply_together(updates: Iterable[Update]) -> tf.Operation:
    """Returns one op for updates by the same rule, with the first one's hyperparameters."""
    rules, tables, gradients, row_ids = zip(*updates)
    states_of_tables = [rule.states for rule in rules]
    return ops.sok_apply_rule(
        rows=[table.handle for table in tables],
        states=[state for states in zip(*states_of_tables) for state in states],
        tables=[table.table_handle for table in tables],
        gradients=gradients,
        row_ids=row_ids,
        hyperparameters=list(rules[0].hyperparameters.values()),
        hyperparameter_names=list(rules[0].hyperparameters),
        rule=rules[0].name,
        rows_to_update=rules[0].rows_to_update,
        row_ids_are_distinct=[rows_are_distinct(ids) for ids in row_ids],
    )


def inputs_of(op: tf.Operation) -> dict[str, tf.Tensor]:
    """Returns {name of an argument: tensor} of an op without list arguments."""
    return dict(zip([argument.name for argument in op.op_def.input_arg], op.inputs))


def rule_of(op: tf.Operation) -> AppliedRule | None:
    """Returns the AppliedRule of a `ResourceApply...` or `ResourceSparseApply...` op, or None."""
    kind = op.type.replace("ResourceSparseApply", "").replace("ResourceApply", "")
    rule = _RULES[kind](op, inputs_of(op)) if kind in _RULES else None
    return rule and dataclasses.replace(rule, use_locking=op.get_attr("use_locking"))


def _descent(op: tf.Operation, inputs: dict[str, tf.Tensor]) -> AppliedRule:
    del op
    return AppliedRule("sgd", [], {"learning_rate": inputs["alpha"]})


def _adagrad(op: tf.Operation, inputs: dict[str, tf.Tensor]) -> AppliedRule | None:
    if not op.get_attr("update_slots"):
        return None
    epsilon = inputs["epsilon"] if "epsilon" in inputs else tf.constant(0.0)
    hyperparameters = {"learning_rate": inputs["lr"], "epsilon": epsilon}
    return AppliedRule("adagrad", [inputs["accum"]], hyperparameters)


def _momentum(op: tf.Operation, inputs: dict[str, tf.Tensor]) -> AppliedRule:
    name = "nesterov" if op.get_attr("use_nesterov") else "momentum"
    hyperparameters = {"learning_rate": inputs["lr"], "momentum": inputs["momentum"]}
    return AppliedRule(name, [inputs["accum"]], hyperparameters)


def _rmsprop(op: tf.Operation, inputs: dict[str, tf.Tensor]) -> AppliedRule:
    del op
    hyperparameters = {name: inputs[name] for name in ("rho", "momentum", "epsilon")}
    hyperparameters["learning_rate"] = inputs["lr"]
    return AppliedRule("rmsprop", [inputs["ms"], inputs["mom"]], hyperparameters)


def _ftrl(op: tf.Operation, inputs: dict[str, tf.Tensor]) -> AppliedRule | None:
    if constant_value(inputs["lr_power"]) != -0.5 or op.get_attr("multiply_linear_by_lr"):
        return None
    shrinkage = inputs["l2_shrinkage"] if "l2_shrinkage" in inputs else tf.constant(0.0)
    hyperparameters = {
        "learning_rate": inputs["lr"],
        "l1": inputs["l1"],
        "l2": inputs["l2"],
        "l2_shrinkage": shrinkage,
    }
    return AppliedRule("ftrl", [inputs["accum"], inputs["linear"]], hyperparameters)


_RULES = {
    "GradientDescent": _descent,
    "Adagrad": _adagrad,
    "AdagradV2": _adagrad,
    "Momentum": _momentum,
    "RMSProp": _rmsprop,
    "Ftrl": _ftrl,
    "FtrlV2": _ftrl,
}
