# SPDX-License-Identifier: Apache-2.0
"""The TensorFlow ops of one table on one engine, as methods on NumPy arrays; in a worker."""

import contextlib
import shutil
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

from tests.conformance.engines import graph_of, load_ops
from tests.conformance.file_faults import FileFaults
from tests.conformance.scripts import NotPossibleHere, Outcome, call

STATE = {"the number of keys": call("size"), "keys, rows and slots": call("export_planes")}
ops = load_ops()


def run_script(engine, script):
    """Yields the outcome of each call; of one that fails also what it has changed."""
    with TableOps.on(engine, script.spec) as table:
        for one_call in script.calls:
            before = table.state()
            outcome, changed = table.outcome_of(one_call), ""
            if outcome.error:
                after = table.state()
                changed = ", ".join(part for part in before if before[part] != after.get(part))
            yield Outcome(outcome.arrays, outcome.error, outcome.message, changed)


class TableOps(FileFaults):
    """One table in a session of its own. Paths are names in a folder of its own."""

    def __init__(self, spec, session, folder):
        self.spec, self.session, self.folder = spec, session, folder
        self.slots = {}
        self.handle = ops.sok_table_handle(shared_name="table", name="table")
        self.rows = self._variable("rows")
        if spec.is_made:
            self.initialize()
        for slot in spec.slots:
            self.attach(slot.name, slot.width, slot.initial_value)
        if spec.preset is not None:
            self.preset(spec.preset)

    @classmethod
    @contextlib.contextmanager
    def on(cls, engine, spec):
        folder = Path(tempfile.mkdtemp(prefix="conformance_"))
        try:
            config = tf.compat.v1.ConfigProto(allow_soft_placement=True)
            with graph_of(engine), tf.compat.v1.Session(config=config) as session:
                yield cls(spec, session, folder)
        finally:
            shutil.rmtree(folder)

    def outcome_of(self, one_call):
        try:
            values = getattr(self, one_call.method)(*one_call.arguments, **one_call.options)
        except tf.errors.OpError as error:
            # A session adds where the op was made, which is the same for all engines.
            original = error.__context__
            error = original if isinstance(original, tf.errors.OpError) else error
            return Outcome(error=type(error).__name__, message=self._plain(error.message))
        except NotPossibleHere as error:
            return Outcome(error=type(error).__name__, message=str(error))
        if values is None:
            return Outcome()
        return Outcome.of_values(values if isinstance(values, (list, tuple)) else [values])

    def state(self):
        """All that the table holds, part by part; reading it changes nothing."""
        return {part: self.outcome_of(question) for part, question in STATE.items()}

    def _plain(self, message):
        """Without the names of nodes, and of the folder."""
        for mark in ("\n\t [[", "\t [["):
            message = message.split(mark)[0]
        return message.replace(str(self.folder), "FOLDER").strip()

    @staticmethod
    def _variable(name):
        """Of a shape that TensorFlow does not know, so that the table checks it."""
        shape = tf.TensorShape(None)
        return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=shape, shared_name=name)

    def _run(self, make_op):
        return self.session.run(make_op())

    # --- making tables and planes ---
    def initialize(self, keep_existing=False, rows="rows", **changes):
        spec = self.spec
        options = {"dim": spec.dim, "capacity": spec.capacity, "rank": spec.rank, **changes}
        self._run(lambda: ops.sok_table_initialize(
            self.handle,
            self._variable(rows),
            options.pop("seed", spec.seed),
            table_name="users",
            use_hash_index=spec.use_hash_index,
            num_ranks=spec.num_ranks,
            first_value=spec.first_value,
            low_or_mean=spec.low_or_mean,
            high_or_stddev=spec.high_or_stddev,
            keep_existing=keep_existing,
            **options,
        ))  # fmt: skip

    def attach(self, name, width, initial_value=0.0, capacity=None, keep_existing=False, into=None):
        capacity = capacity or self.spec.capacity
        handle = self._variable(into or name)
        self._run(lambda: ops.sok_table_attach_slot(
            self.handle,
            handle,
            slot_name=name,
            capacity=capacity,
            width=width,
            initial_value=initial_value,
            rows_fill_in_order=self.spec.use_hash_index,
            keep_existing=keep_existing,
        ))  # fmt: skip
        self.slots[name] = handle

    def detach(self, name):
        self._run(lambda: ops.sok_table_detach_slot(self.handle, self.slots.pop(name)))

    def preset(self, values):
        self._run(lambda: ops.sok_table_preset(self.handle, np.array(values, np.float32)))

    def size(self):
        return self._run(lambda: ops.sok_table_size(self.handle))

    def read_rows(self, plane="rows"):
        handle = self.rows if plane == "rows" else self.slots[plane]
        return self._run(lambda: ops.sok_read_rows(handle, self.handle))

    # --- lookups ---
    def distinct(self, keys, key_dtype=None):
        keys = np.array(keys, key_dtype or self.spec.key_dtype)
        return self._run(lambda: ops.sok_distinct_keys(tf.constant(keys)))

    def find(self, keys, insert=False, are_distinct=False):
        return self._run(lambda: ops.sok_find_rows(
            self.handle, _keys(keys), insert=insert, keys_are_distinct=are_distinct
        ))  # fmt: skip

    def insert_rows(self, keys, rows):
        rows = np.array(rows, np.float32)
        return self._run(lambda: ops.sok_insert_rows(self.handle, _keys(keys), rows))

    def pool(
        self,
        keys,
        inverse,
        row_splits=(),
        combiner="sum",
        row_ids=None,
        absent_rows=None,
        all_keys_have_rows=False,
        rows=None,
    ):
        """The pooled rows of keys; row ids are found where none are given."""
        if row_ids is None:
            row_ids = self.find(keys)
        dim = self.spec.dim
        absent = np.zeros([0, dim]) if absent_rows is None else absent_rows
        return self._run(lambda: ops.sok_pool_rows(
            self.rows if rows is None else self.slots[rows],
            self.handle,
            _keys(keys),
            _keys(row_ids),
            np.array(absent, np.float32),
            np.array(inverse, np.int32),
            _keys(row_splits),
            combiner=combiner,
            dim=dim,
            all_keys_have_rows=all_keys_have_rows,
        ))  # fmt: skip

    def pool_received(self, rows, inverse, row_splits=(), mean_splits=None, combiner="sum"):
        mean_splits = row_splits if mean_splits is None else mean_splits
        return self._run(lambda: ops.sok_pool_received_rows(
            np.array(rows, np.float32),
            np.array(inverse, np.int32),
            _keys(row_splits),
            _keys(mean_splits),
            combiner=combiner,
        ))  # fmt: skip

    # --- training ---
    def merge(
        self, gradients, num_distinct, inverse, row_splits=(), mean_splits=None, combiner="sum"
    ):
        mean_splits = row_splits if mean_splits is None else mean_splits
        return self._run(lambda: ops.sok_merge_gradients(
            np.array(gradients, np.float32),
            np.arange(num_distinct, dtype=np.int64),
            np.array(inverse, np.int32),
            _keys(row_splits),
            _keys(mean_splits),
            combiner=combiner,
        ))  # fmt: skip

    def adam(self, gradients, row_ids, state="m_and_v", is_lazy=True, are_distinct=False, **step):
        numbers = {"step_size": 0.1, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7, **step}
        handle = self._slot(state)
        self._run(lambda: ops.sok_apply_adam(
            self.rows,
            handle,
            self.handle,
            *(np.float32(number) for number in numbers.values()),
            np.array(gradients, np.float32),
            _keys(row_ids),
            is_lazy=is_lazy,
            row_ids_are_distinct=are_distinct,
        ))  # fmt: skip

    def adagrad(self, gradients, row_ids, state="accumulator", are_distinct=False):
        handle = self._slot(state)
        self._run(lambda: ops.sok_apply_adagrad(
            self.rows,
            handle,
            self.handle,
            np.float32(0.1),
            np.float32(1e-7),
            np.array(gradients, np.float32),
            _keys(row_ids),
            row_ids_are_distinct=are_distinct,
        ))  # fmt: skip

    def scatter(self, kind, row_ids, values, plane="rows"):
        """TensorFlow's own update of a plane: `kind` is "Add", "Sub" or "Update"."""
        handle = self.rows if plane == "rows" else self.slots[plane]
        update = getattr(tf.raw_ops, f"ResourceScatter{kind}")
        self._run(lambda: update(
            resource=handle, indices=_keys(row_ids), updates=np.array(values, np.float32)
        ))  # fmt: skip

    def assign_plane(self, values, plane="rows"):
        """TensorFlow's own assignment of another value to a plane's variable."""
        handle = self.rows if plane == "rows" else self.slots[plane]
        value = tf.constant(np.array(values, np.float32))
        self._run(lambda: tf.raw_ops.AssignVariableOp(resource=handle, value=value))

    def _slot(self, name):
        return self.slots[name] if name in self.slots else self._variable(name)

    # --- contents ---
    def export(self):
        return self._run(lambda: ops.sok_export_table(self.handle))

    def rows_in_use(self):
        return self._run(lambda: ops.sok_rows_in_use(self.handle))

    def export_planes(self, slots=None, no_gaps=False):
        names = list(self.slots) if slots is None else slots
        keys, rows, slots = self._run(lambda: ops.sok_export_planes(
            self.handle, num_slots=len(names), slot_names=names, rows_have_no_gaps=no_gaps
        ))  # fmt: skip
        return [keys, rows, *slots]

    def import_planes(self, keys, rows, slots=None):
        slots = slots or {}
        values = [np.array(value, np.float32) for value in slots.values()]
        self._run(lambda: ops.sok_import_planes(
            self.handle,
            np.array(keys, np.int64),
            np.array(rows, np.float32),
            values,
            slot_names=list(slots),
            Tkey=tf.dtypes.as_dtype(self.spec.key_dtype),
        ))  # fmt: skip

    def load(self, values):
        self._run(lambda: ops.sok_load_table(self.handle, np.array(values, np.float32)))


def _keys(keys):
    return np.array(keys, np.int64)
