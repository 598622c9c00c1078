# SPDX-License-Identifier: Apache-2.0
"""Tables of an imported meta graph, for savers: read from their ops, as no Table made them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from sok_compat.checkpoint.parts.bucket_saveable import BucketSaveable
from sok_compat.checkpoint.parts.saved_parts import PartsSaveable
from sok_compat.checkpoint.parts.whole_variable import NotedSlots, WholeVariable
from sok_compat.ranks.identity import Ranks
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import var_is_initialized_op
from sok_compat.tables.first_value import FirstValue
from sok_compat.tables.history_methods import evict_keys
from sok_compat.tables.key_history import KeyHistory
from sok_compat.tables.placement import Placement, PlacementKind
from sok_compat.tables.slots.slot_variable import SlotVariable
from sok_compat.tables.stored.description import BUCKETS, PARTS, description_of
from sok_compat.tables.stored.saved_part import SavedPart
from sok_compat.tables.stored.storage import Storage
from sok_compat.tables.stored.table_part import TablePart
from sok_compat.tables.table import Table
from sok_compat.tables.table_arguments import UNDECLARED_CAPACITY

_TABLE, _SLOT = "SokTableInitialize", "SokTableAttachSlot"


class _ImportedPlane:
    """The variable of a table's rows, or of a slot."""

    def __init__(self, made_by: tf.Operation, handle: tf.Tensor) -> None:
        self._made_by, self.handle = made_by, handle
        self.op, self.device, self.name = handle.op, handle.device, handle.op.name

    def ref(self) -> Any:
        """As a variable's."""
        return self.handle.ref()

    def _attributes(self):
        definition = self._made_by.op_def
        counts = {each.number_attr for each in definition.input_arg}  # follow from the inputs
        names = {each.name for each in definition.attr} - counts
        return {**{name: self._made_by.get_attr(name) for name in names}, "keep_existing": True}


class ImportedSlot(_ImportedPlane):
    """As a SlotVariable, for savers."""

    def __init__(self, made_by: tf.Operation, table: ImportedTable) -> None:
        """Creates no ops; `made_by` is a SokTableAttachSlot."""
        super().__init__(made_by, made_by.inputs[1])
        self.table = table
        self.plane_name = made_by.get_attr("slot_name").decode()
        self.width = made_by.get_attr("width")

    def initialize_if_missing(self) -> tf.Operation:
        with tf.device(self.device):
            return ops.sok_table_attach_slot(*self._made_by.inputs, **self._attributes())


class ImportedTable(_ImportedPlane):
    """As a Table, for savers."""

    def __init__(self, made_by: tf.Operation) -> None:
        """Creates no ops; `made_by` is a SokTableInitialize."""
        super().__init__(made_by, made_by.inputs[1])
        self.table_handle = made_by.inputs[0]
        known = description_of(self.table_handle)
        self._known, of_op = known, made_by.get_attr
        self.can_be_saved = known.get("layout", PARTS) != PARTS
        self.table_name = self.op.name  # with an import_scope
        self.key_dtype = tf.as_dtype(known.get("key_dtype", "int64"))
        self.key_dtype_of_ids = tf.as_dtype(known.get("key_dtype_of_ids", "int64"))
        capacity = of_op("capacity")
        self.capacity = None if capacity == UNDECLARED_CAPACITY else capacity
        self.dim, self.history = of_op("dim"), KeyHistory(max_keys=of_op("max_keys"))
        self.ranks = Ranks(of_op("rank"), of_op("num_ranks"))
        rows = made_by.inputs[3] if len(made_by.inputs) > 3 else None
        self.first_value = FirstValue(of_op("first_value").decode(), rows=rows)
        self.placement = Placement(
            PlacementKind(of_op("placement_kind").decode()),
            self.ranks,
            *(of_op("owner_rank"), of_op("num_keys")),
        )
        part = TablePart(*known["part"]) if known.get("part") else None
        layout = BucketSaveable if known.get("layout") == BUCKETS else None
        self.storage = Storage(layout=layout, part=part, parts=_parts_in(known))
        made = _initializers(self.table_handle, _SLOT)
        self.slots = [ImportedSlot(op, self) for op in made]

    def num_keys(self) -> tf.Tensor:
        return ops.sok_table_size(self.table_handle)

    def kind(self) -> str:
        return self._known["kind"]

    def initialize_if_missing(self) -> tf.Operation:
        is_there = var_is_initialized_op(self.handle)
        table, rows, seed, *first_rows = self._made_by.inputs
        with tf.device(self.device), tf.control_dependencies([is_there]):
            made = ops.sok_table_initialize(table, rows, seed, first_rows, **self._attributes())
        presets = [op for op in table.consumers() if op.type == "SokTablePreset"]
        if not presets:
            return made
        with tf.device(self.device), tf.control_dependencies([made]):
            values = presets[0].inputs[1]
            return tf.cond(is_there, tf.no_op, lambda: ops.sok_table_preset(table, values))

    def before_save(self) -> tf.Operation | None:
        """See Table; as of DeepRec's variables, evicts keys."""
        steps_to_live, l2_threshold = self._known.get("evicts", (None, None))
        if steps_to_live is None and l2_threshold is None:
            return None
        step = tf.compat.v1.train.get_global_step()
        with tf.device(self.device):
            return evict_keys(
                self.table_handle, -1 if step is None else step, steps_to_live, l2_threshold
            ).op


def imported_plane(variable: tf.Variable) -> ImportedTable | ImportedSlot | None:
    """The table or slot of an imported graph that a variable stands for; else None."""
    handle: Any = getattr(variable, "handle", None)
    if not tf.is_symbolic_tensor(handle):  # also in eager mode, where no graph is imported
        return None
    for op in handle.consumers():
        if op.type in (_TABLE, _SLOT):
            table = ImportedTable(_initializers(op.inputs[0], _TABLE)[0])
            planes: list[Any] = [table, *table.slots]
            return next(each for each in planes if each.ref() == handle.ref())
    return None


class _ImportedParts:
    """Tables and variables that are saved together, as parts of larger arrays, for savers.

    places: those by number.
    """

    def __init__(self, name: str) -> None:
        """Knows no tables yet; `name` is the prefix of the arrays."""
        self._name = name
        self.places: dict[int, Any] = {}  # ImportedTables and WholeVariables

    def saveable(self) -> PartsSaveable:
        """Returns the PartsSaveable for a tf.train.Saver."""
        return PartsSaveable([place for _, place in sorted(self.places.items())], self._name)


def mark_imported_parts() -> None:
    """Lets the variables of imported graphs that are parts of larger arrays know what saves them,
    as those of a script do."""
    owners: dict[Any, _ImportedParts] = {}
    slots = []
    for variable in tf.compat.v1.global_variables():
        of_script = isinstance(variable, (Table, SlotVariable)) or hasattr(variable, "noted_slots")
        if of_script or not hasattr(variable, "handle"):
            continue
        plane = imported_plane(variable)
        table = plane.table if isinstance(plane, ImportedSlot) else plane
        handle = variable.handle if table is None else table.table_handle
        known = description_of(handle)
        if "owner" not in known:
            continue
        name, number = known["owner"]
        scope = handle.op.name.removesuffix(known["op"])
        owner = owners.setdefault((scope, name), _ImportedParts(name))
        if "parts" not in known:  # a slot of a variable, which may be one of a script
            slots.append((owner, number, variable))
            continue
        variable.noted_slots = NotedSlots(owner)
        if table is None:
            storage = Storage(parts=_parts_in(known))
            owner.places[number] = WholeVariable(variable, storage, Ranks(*known["ranks"]))
        else:
            owner.places[number] = table
    for owner, number, slot in slots:
        if number in owner.places:
            owner.places[number].variable.noted_slots.note(slot)
            slot.noted_slots = NotedSlots(owner)


def _parts_in(known):
    return [SavedPart(*part) for part in known.get("parts", ())]


def _initializers(table_handle, kind):
    """The ops of a kind that are initializers of variables, in an order that all ranks have."""
    ops_of_kind = [op for op in table_handle.consumers() if op.type == kind]
    made_by_script = [op for op in ops_of_kind if not op.get_attr("keep_existing")]
    return sorted(made_by_script, key=lambda op: op.name)
