# SPDX-License-Identifier: Apache-2.0
"""The TensorFlow ops of a script's tables on one engine, on NumPy arrays; in a worker."""

import contextlib
import shutil
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

from tests.conformance.engines import graph_of, load_ops
from tests.conformance.file_faults import FileFaults
from tests.conformance.lookup_ops import Item, LookupOps, as_floats, as_keys, item_of_group
from tests.conformance.scripts import NotPossibleHere, Outcome, call

STATE = {"the number of keys": call("size"), "keys, rows and slots": call("contents")}
COUNTED = {**STATE, "keys without a row": call("waiting")}
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


class TableOps(LookupOps, FileFaults):
    """A table in a session of its script's own. Paths are names in a folder of its own."""

    def __init__(self, spec, session, folder, prefix=""):
        self.spec, self.session, self.folder, self.prefix = spec, session, folder, prefix
        self.slots, self._made = {}, {}
        self.num_in_series = 0
        self.handle = ops.sok_table_handle(shared_name=f"{prefix}table")
        self.rows = self._variable("rows")
        self.beside = [
            TableOps(other, session, folder, f"beside_{number}_")
            for number, other in enumerate(spec.beside, 1)
        ]
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
        values = values if isinstance(values, (list, tuple)) else [values]
        return Outcome.of_values([value for value in values if value is not None])

    def state(self):
        """All that the tables hold, part by part; reading it changes nothing."""
        return {
            f"{part} of table {number}": table.outcome_of(question)
            for number, table in enumerate(self.tables())
            for part, question in (STATE if table.spec.history is None else COUNTED).items()
        }

    def tables(self):
        """This one and those beside it."""
        return [self, *self.beside]

    def _plain(self, message):
        """Without the names of nodes, and of the folder."""
        for mark in ("\n\t [[", "\t [["):
            message = message.split(mark)[0]
        return message.replace(str(self.folder), "FOLDER").strip()

    def _variable(self, name):
        """Of a shape that TensorFlow does not know, so that the table checks it."""
        return tf.raw_ops.VarHandleOp(
            dtype=tf.float32, shape=tf.TensorShape(None), shared_name=self.prefix + name
        )

    def _run(self, make_op):
        return self.session.run(make_op())

    def _run_again(self, what, make_op):
        """As above, with the op that was made for `what` before."""
        if what not in self._made:
            self._made[what] = make_op()
        return self.session.run(self._made[what])

    # --- making tables and planes ---
    def initialize(self, keep_existing=False, rows="rows", **changes):
        spec = self.spec
        options = {
            "dim": spec.dim,
            "capacity": spec.capacity,
            "placement_kind": spec.placement,
            "num_ranks": spec.num_ranks,
            "rank": spec.rank,
            "owner_rank": spec.owner_rank,
            "num_keys": spec.num_keys,
            **({} if spec.history is None else {"keeps_history": True, **spec.history}),
            **changes,
        }
        self._run(lambda: ops.sok_table_initialize(
            self.handle,
            self._variable(rows),
            options.pop("seed", spec.seed),
            [],
            table_name="users",
            use_hash_index=spec.use_hash_index,
            first_value=spec.first_value,
            low_or_mean=spec.low_or_mean,
            high_or_stddev=spec.high_or_stddev,
            first_value_period=spec.first_value_period,
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
        self._run(lambda: ops.sok_table_preset(self.handle, as_floats(values)))

    def size(self):
        return self._run_again("size", lambda: ops.sok_table_size(self.handle))

    def read_rows(self, plane="rows"):
        handle = self.rows if plane == "rows" else self.slots[plane]
        return self._run(lambda: ops.sok_read_rows(handle, self.handle))

    # --- the history of keys ---
    def history(self, keys):
        return self._run(lambda: ops.sok_key_history(self.handle, as_keys(keys)))

    def waiting(self):
        return self._run(lambda: ops.sok_export_waiting_keys(self.handle))

    def import_history(self, keys, counts, steps):
        columns = [as_keys(column) for column in (keys, counts, steps)]
        self._run(lambda: ops.sok_import_history(self.handle, *columns))

    def evict(self, step, steps_to_live=0, l2_threshold=0.0):
        return self._run(lambda: ops.sok_evict_keys(
            self.handle, as_keys(step), steps_to_live=steps_to_live, l2_threshold=l2_threshold
        ))  # fmt: skip

    # --- training ---
    @item_of_group
    def apply(
        self,
        rule,
        gradients,
        row_ids,
        numbers,
        states=(),
        rows_to_update="given",
        are_distinct=False,
    ):
        """An optimizer's rule with its hyperparameters; `states` are names of slots."""
        lists = {
            "rows": self.rows,
            "states": [self._slot(state) for state in states],
            "tables": self.handle,
            "gradients": as_floats(gradients),
            "row_ids": as_keys(row_ids),
            "row_ids_are_distinct": are_distinct,
        }
        hyperparameters = {
            "hyperparameters": list(map(np.float32, numbers.values())),
            "hyperparameter_names": list(numbers),
        }
        options = {"rule": rule, "rows_to_update": rows_to_update}
        return Item("sok_apply_rule", lists, {**hyperparameters, **options})

    def scatter(self, kind, row_ids, values, plane="rows"):
        """TensorFlow's own update of a plane: `kind` is "Add", "Sub" or "Update"."""
        handle = self.rows if plane == "rows" else self.slots[plane]
        update = getattr(tf.raw_ops, f"ResourceScatter{kind}")
        self._run(lambda: update(
            resource=handle, indices=as_keys(row_ids), updates=as_floats(values)
        ))  # fmt: skip

    def assign_plane(self, values, plane="rows"):
        """TensorFlow's own assignment of another value to a plane's variable."""
        handle = self.rows if plane == "rows" else self.slots[plane]
        value = tf.constant(as_floats(values))
        self._run(lambda: tf.raw_ops.AssignVariableOp(resource=handle, value=value))

    def _slot(self, name):
        return self.slots[name] if name in self.slots else self._variable(name)

    # --- contents ---
    def export(self):
        return self._run(lambda: ops.sok_export_table(self.handle))

    def rows_in_use(self):
        return self._run(lambda: ops.sok_rows_in_use(self.handle))

    def contents(self):
        """The live keys in the order of row ids, their rows, and the values of slots."""

        def read():
            keys, rows = ops.sok_export_table(self.handle)
            row_ids = ops.sok_rows_in_use(self.handle)
            if not self.spec.use_hash_index:  # all keys are exported, the live ones among them
                keys, rows = tf.gather(keys, row_ids), tf.gather(rows, row_ids)
            slots = [
                tf.raw_ops.ResourceGather(resource=slot, indices=row_ids, dtype=tf.float32)
                for slot in self.slots.values()
            ]
            return [keys, rows, *slots]

        return self._run_again(("contents", *self.slots), read)

    def save_buckets(self, num_buckets, slots=None):
        """What a checkpoint then has: keys, where each bucket starts, rows and slots."""
        slots = list(self.slots) if slots is None else slots
        titles = ["x", *(f"x/{slot}" for slot in slots)]
        names = ["x-keys", "x-partition_offset", *(f"{title}-values" for title in titles)]
        return self._saved("saved", [], titles, slots, num_buckets, names)

    def save_series(self):
        """Keys, rows and slots of a whole checkpoint, the first time; then of increments."""
        base = self._run(lambda: ops.sok_saved_base(self.handle)).decode()
        if base:
            base = f"series-{self.num_in_series}\n{base}"
        self.num_in_series += 1
        titles = ["x/rows", *(f"x/{slot}" for slot in self.slots)]
        ending = ".increment" if base else ""
        names = [f"{name}{ending}" for name in ("x/keys", *titles)]
        path = f"series-{self.num_in_series}"
        return self._saved(path, [base], titles, list(self.slots), 0, names)

    def restore_series(self):
        """From the last checkpoint of the series."""
        path = str(self.folder / f"series-{self.num_in_series}")
        titles = ["x/rows", *(f"x/{slot}" for slot in self.slots)]
        self._restore_from(path, titles, list(self.slots))

    def _saved(self, name, bases, titles, slots, num_buckets, names):
        """Tensors of a checkpoint that is made."""
        path = str(self.folder / name)
        steps = ops.sok_hold_checkpoint_barrier([], most_seconds=60)
        checkpoint = ops.sok_begin_checkpoint(
            path, [], [], bases, steps, names=[], slices=[], num_ranks=1
        )
        saved = ops.sok_save_table(
            self.handle,
            checkpoint,
            [],
            table_name="x",
            titles=titles,
            slot_names=slots,
            num_buckets=num_buckets,
            Tkey=tf.int64,
        )
        with tf.control_dependencies([saved]):
            self._run(lambda: ops.sok_commit_checkpoint(checkpoint, []))
        return [tf.train.load_checkpoint(path).get_tensor(name) for name in names]

    def _checkpoint_of(self, tensors):
        path = str(self.folder / "checkpoint")
        self._run(lambda: tf.raw_ops.SaveV2(
            prefix=path,
            tensor_names=list(tensors),
            shape_and_slices=[""] * len(tensors),
            tensors=[tf.constant(value) for value in tensors.values()],
        ))  # fmt: skip
        return path

    def _restore_from(self, path, titles, slot_names):
        self._run(lambda: ops.sok_restore_saved(
            self.handle,
            path,
            [],
            table_name="x",
            titles=titles,
            slot_names=slot_names,
            Tkey=tf.dtypes.as_dtype(self.spec.key_dtype),
        ))  # fmt: skip

    def restore_buckets(self, tensors, slots=(), num_parts=1, part=0):
        """From a checkpoint of these tensors, {name: value}; the table is 'x' there."""
        path = self._checkpoint_of(tensors)
        self._run(lambda: ops.sok_restore_saved(
            self.handle,
            path,
            [],
            table_name="x",
            titles=["x"] * (1 + len(slots)),
            tails=["", *(f"/{slot}" for slot in slots)],
            slot_names=list(slots),
            slot_is_required=[True] * len(slots),
            num_buckets=4,
            num_parts=num_parts,
            part=part,
            Tkey=tf.int64,
        ))  # fmt: skip

    def restore_rows(self, keys, rows, slots=None):
        """From a checkpoint of these; the table is 'x' there."""
        slots = slots or {}
        titles = ["x/rows", *(f"x/{slot}" for slot in slots)]
        path = self._checkpoint_of(
            {"x/keys": as_keys(keys), **dict(zip(titles, map(as_floats, (rows, *slots.values()))))}
        )
        self._restore_from(path, titles, list(slots))

    def load(self, values):
        values = as_floats(values)
        keys = np.arange(values.shape[0] if values.ndim else 0)
        self._run(lambda: ops.sok_load_table(self.handle, keys, values, []))
