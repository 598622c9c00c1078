# SPDX-License-Identifier: Apache-2.0
"""The ops on groups of lookups: what each gets for one of them, which runs alone or with others."""

import dataclasses
import functools

import numpy as np
import tensorflow as tf

from tests.conformance.engines import load_ops

ops = load_ops()


@dataclasses.dataclass(frozen=True)
class Item:
    """One lookup's part in an op on a group."""

    op: str
    lists: dict  # inputs and attributes of which each item has one
    attributes: dict = dataclasses.field(default_factory=dict)  # and inputs, of the whole op


def joined(items):
    """One op for all items; its outputs, list after list."""
    first = items[0]
    lists = {name: [item.lists[name] for item in items] for name in first.lists}
    if "states" in lists:  # the first of each item, then the second
        lists["states"] = [state for states in zip(*lists["states"]) for state in states]
    has_lists_of_types_only = first.op in ("sok_distinct_keys", "sok_checked_splits")
    number = {"N": len(items)} if has_lists_of_types_only else {}
    return tf.nest.flatten(getattr(ops, first.op)(**lists, **first.attributes, **number))


def item_of_group(describe):
    """A method that runs the op of its one item; `together` runs one op for several."""

    @functools.wraps(describe)
    def alone(self, *arguments, **options):
        item = describe(self, *arguments, **options)
        values = self._run(lambda: joined([item]))
        return values[0] if len(values) == 1 else values

    alone.describe = describe
    return alone


class LookupOps:
    """What TableOps does with keys, bags and gradients of bags. `beside`: the tables from 1 on."""

    def of_table(self, number, one_call):
        """The call on another table of the script."""
        table = self.tables()[number]
        return getattr(table, one_call.method)(*one_call.arguments, **one_call.options)

    def together(self, *parts):
        """One op for calls of one method: pairs of a table's number and its call."""
        tables, items = self.tables(), []
        for number, one_call in parts:
            describe = getattr(type(self), one_call.method).describe
            items.append(describe(tables[number], *one_call.arguments, **one_call.options))
        return self._run(lambda: joined(items))

    @item_of_group
    def row_splits(self, indices, num_rows, num_values=None, bags_per_sample=1, max_nnz=0):
        indices = as_keys(indices).reshape(-1, 2)
        num_values = len(indices) if num_values is None else num_values
        lists = {"indices": indices, "dense_shape": as_keys([num_rows, 9])}
        return Item("sok_row_splits", {**lists, **_layer(num_values, bags_per_sample, max_nnz)})

    @item_of_group
    def checked_splits(
        self, splits, num_values, bags_per_sample=1, max_nnz=0, are_samples=False, dtype="int64"
    ):
        lists = {"row_splits": np.array(splits, dtype), "are_samples": are_samples}
        return Item("sok_checked_splits", {**lists, **_layer(num_values, bags_per_sample, max_nnz)})

    @item_of_group
    def distinct(self, keys, key_dtype=None):
        keys = tf.constant(np.array(keys, key_dtype or self.spec.key_dtype))
        return Item("sok_distinct_keys", {"keys": keys})

    @item_of_group
    def find(self, keys, insert=False, are_distinct=False, uses_keys=False):
        lists = {"tables": self.handle, "keys": as_keys(keys)}
        attributes = {"collectives": [], "insert": insert, "keys_are_distinct": are_distinct}
        return Item("sok_find_rows", lists, {**attributes, "uses_keys": uses_keys})

    def insert_rows(self, keys, rows):
        return self._run(lambda: ops.sok_insert_rows(self.handle, as_keys(keys), as_floats(rows)))

    @item_of_group
    def insert_absent(self, keys, found, absent_rows=None):
        return Item("sok_insert_absent", {
            "tables": self.handle,
            "keys": as_keys(keys),
            "found": as_keys(found),
            **self._absent_rows(absent_rows),
        })  # fmt: skip

    def _absent_rows(self, rows):
        none = np.zeros([0, self.spec.dim])
        return {
            "absent_rows": as_floats(none if rows is None else rows),
            "rows_are_given": rows is not None,
        }

    def make_room(self, keys):
        return self._run(lambda: ops.sok_make_room(self.handle, as_keys(keys)))

    def draw(self, keys, ratio, seed=0):
        return self._run(lambda: ops.sok_draw_keys(
            self.handle, as_keys(keys), ratio=ratio, seed=seed
        ))  # fmt: skip

    @item_of_group
    def admit(self, keys, counts, step=0, row_ids=None, absent_rows=None):
        """Row ids are found where none are given."""
        lists = {
            "tables": self.handle,
            "keys": as_keys(keys),
            "row_ids": as_keys(self.find(keys) if row_ids is None else row_ids),
            "counts": np.asarray(counts, np.int32),
            **self._absent_rows(absent_rows),
        }
        return Item("sok_admit_keys", lists, {"step": np.int64(step)})

    @item_of_group
    def pool(
        self,
        keys,
        inverse,
        row_splits=(),
        combiner="sum",
        weights=(),
        row_ids=None,
        absent_rows=None,
        all_keys_have_rows=False,
        rows=None,
    ):
        """The pooled rows of keys; row ids are found where none are given."""
        dim = self.spec.dim
        lists = {
            "rows": self.rows if rows is None else self.slots[rows],
            "tables": self.handle,
            "keys": as_keys(keys),
            "row_ids": as_keys(self.find(keys) if row_ids is None else row_ids),
            "absent_rows": as_floats(np.zeros([0, dim]) if absent_rows is None else absent_rows),
            "inverse": np.array(inverse, np.int32),
            "row_splits": as_keys(row_splits),
            "weights": as_floats(weights),
            "combiners": combiner,
            "dims": dim,
        }
        return Item("sok_pool_rows", lists, {"all_keys_have_rows": all_keys_have_rows})

    @item_of_group
    def pool_received(self, rows, inverse, row_splits=(), combiner="sum", weights=(), factors=()):
        lists = {"rows": as_floats(rows), **_bags(inverse, row_splits, weights, factors, combiner)}
        return Item("sok_pool_received_rows", lists)

    @item_of_group
    def merge(
        self,
        gradients,
        num_distinct,
        inverse,
        row_splits=(),
        combiner="sum",
        weights=(),
        factors=(),
        counted=None,
    ):
        """`counted`: rows whose number is num_distinct, instead of row ids."""
        counted = np.arange(num_distinct, dtype=np.int64) if counted is None else as_floats(counted)
        bags = _bags(inverse, row_splits, weights, factors, combiner)
        lists = {"gradients": as_floats(gradients), "counted": counted, **bags}
        return Item("sok_merge_gradients", lists)


def _layer(num_values, bags_per_sample, max_nnz):
    return {
        "values": np.zeros(num_values, np.int8),  # of any type
        "layer_names": "layer",
        "bags_per_sample": bags_per_sample,
        "names_of_number": "slots",
        "max_nnzs": max_nnz,
    }


def _bags(inverse, row_splits, weights, factors, combiner):
    return {
        "inverse": np.array(inverse, np.int32),
        "row_splits": as_keys(row_splits),
        "weights": as_floats(weights),
        "factors": as_floats(factors),
        "combiners": combiner,
    }


def as_keys(keys):
    return np.array(keys, np.int64)


def as_floats(values):
    return np.array(values, np.float32)
