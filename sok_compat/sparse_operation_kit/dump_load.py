# SPDX-License-Identifier: Apache-2.0
"""`dump`, `load` and `incremental_model_dump` of SparseOperationKit 2."""

from __future__ import annotations

import datetime
import io
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from sok_compat.checkpoint.files.headed_files import bytes_of_dumps, file_stem, no_dump_ends
from sok_compat.checkpoint.streams.dumps import DumpedTable, dump_tables, load_tables, run_logged
from sok_compat.ranks.allgather_strings import allgather_bytes
from sok_compat.runtime.graphs import state_of
from sok_compat.runtime.tf_versions import members
from sok_compat.sparse_operation_kit.distributed_variable import StaticVariable
from sok_compat.sparse_operation_kit.dynamic_variable import DynamicVariable
from sok_compat.sparse_operation_kit.optimizer import OptimizerWrapper, checked
from sok_compat.tables.slots.slot_variable import SlotVariable
from sok_compat.training.rows_of_gradients import (
    is_newer_keras,
    make_slots_of_tables,
    slots_by_name,
)

_OPTIMIZERS = ("Adamax", "Adadelta", "Adagrad", "Ftrl", "Adam", "SGD")  # "Adam" after "Adamax"
_SAVED_AS = {"Adamax": "Adam"}  # by SparseOperationKit
_SLOT_NAMES = {  # of tf.keras.optimizers: those of its `legacy`
    ("Adadelta", "accumulated_delta_var"): "accum_var",
    ("Adadelta", "accumulated_grad"): "accum_grad",
    ("Adamax", "u"): "v",
    ("RMSprop", "average_gradient"): "mg",
    ("RMSprop", "velocity"): "rms",
    ("SGD", "m"): "momentum",
}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def dump(
    path: str | os.PathLike[str], dump_vars: Any, optimizer: Any = None, sess: Any = None
) -> None:
    """Writes variables, and their slots of an optimizer, to files. API of SparseOperationKit 2.

    All ranks call it together, and rank 0 writes. The files hold all of a training step, on all
    ranks and of all variables, or none of it. Earlier dumps of the variables are replaced, all at
    once, when the new files are complete.

    Args:
      path: a folder, made if need be.
      dump_vars: variables of `sok.Variable` and `sok.DynamicVariable`, or one; repeats count once.
      optimizer: an OptimizerWrapper, or an optimizer as it takes, that has trained all of them; or
        a list of one; None: no slots.
      sess: of a graph, the session; None: the default one. Not in eager mode.

    Raises:
      TypeError: a variable or an optimizer of another kind.
      ValueError: no variable; two whose names differ in punctuation only; a variable has no slots
        of the optimizer; no session.
      tf.errors.OpError: on all ranks, a file cannot be written: on rank 0 PermissionDeniedError,
        ResourceExhaustedError (no space) or the like, on the others UnknownError with its
        text; DeadlineExceededError: a step that has begun does not end.
    """
    variables, session = _checked_variables("sok.dump", dump_vars), _session("sok.dump", sess)
    dumps = _dumps_of(variables, optimizer)
    run_logged("dumping", os.fspath(path), dumps, session, dump_tables)


def load(
    path: str | os.PathLike[str], load_vars: Any, optimizer: Any = None, sess: Any = None
) -> None:
    """Replaces the contents of variables, and of their slots, by those of their files.

    API of SparseOperationKit 2. All ranks call it together, however many ranks have written the
    files. Rank 0 reads them, and sends each rank its rows. Slots that are not loaded start anew. If
    something does not fit, all variables stay as they were. For that, the files of several
    variables are read twice if one has keys, and one that has keys is in memory twice. They are
    those of one dump: another process's `dump` into the folder waits with its last step.

    Args:
      path: a folder that `dump` or SparseOperationKit has written.
      load_vars: as of `dump`, of the same names, which in eager mode are those they were given.
      optimizer: as of `dump`; its slots are made if need be, in eager mode. Call `build` of one of
        tf.keras.optimizers with all its variables before, if it has others, too.
      sess: as of `dump`.

    Raises:
      TypeError, ValueError: as `dump`.
      tf.errors.OpError: on all ranks; on the one that finds it NotFoundError (a file is missing),
        DataLossError (one is damaged), InvalidArgumentError (one does not fit) or
        ResourceExhaustedError (more keys than the capacity), on the others UnknownError with its
        text.
    """
    variables, session = _checked_variables("sok.load", load_vars), _session("sok.load", sess)
    if optimizer is not None and session is None:
        make_slots_of_tables(_optimizer_in(optimizer), variables)
    dumps, folder = _dumps_of(variables, optimizer), os.fspath(path)
    num_bytes = bytes_of_dumps(folder, [each.name for each in dumps])
    with no_dump_ends(folder):
        run_logged("loading", folder, dumps, session, load_tables, num_bytes)


def incremental_model_dump(
    sok_vars: Any, time_threshold: Any, sess: Any = None
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Returns the keys, of all ranks, that lookups have used after a time, and their rows.

    API of SparseOperationKit 2. All ranks call it together.

    Args:
      sok_vars: a DynamicVariable of var_type 'hybrid', or a list of such.
      time_threshold: a datetime with a time zone, or a list of one for each variable.
      sess: as of `dump`.

    Returns:
      ([keys, ascending], [rows float32 [n, dim]]), an array for each variable.

    Raises:
      TypeError: a variable of another kind; a threshold is not a datetime.
      ValueError: a threshold has no time zone; lists of different lengths; no session.
    """
    user = "sok.incremental_model_dump"
    variables, session = _checked_variables(user, sok_vars), _session(user, sess)
    for variable in variables:
        if variable.history is None:
            raise TypeError(
                f"{user} needs sok.DynamicVariable of var_type='hybrid', got {variable.name}"
            )
    is_list = isinstance(time_threshold, (list, tuple))
    thresholds = list(time_threshold) if is_list else [time_threshold] * len(variables)
    if len(thresholds) != len(variables):
        raise ValueError(
            f"{user} needs one time_threshold or {len(variables)}, got {len(thresholds)}"
        )
    moments = [_nanoseconds(threshold) for threshold in thresholds]
    found = [_used_after(*pair, session) for pair in zip(variables, moments)]
    return [keys for keys, _ in found], [rows for _, rows in found]


incremental_dump = incremental_model_dump


def _checked_variables(user: str, variables: Any) -> list[Any]:
    variables = list(variables) if isinstance(variables, (list, tuple)) else [variables]
    if not variables:
        raise ValueError(f"{user} needs at least one variable")
    for variable in variables:
        if not isinstance(variable, (StaticVariable, DynamicVariable)):
            raise TypeError(
                f"{user} takes variables of sok.Variable and sok.DynamicVariable, got "
                f"{type(variable).__name__}"
            )
    return list({id(variable): variable for variable in variables}.values())


def _session(user: str, session: Any) -> Any:
    if tf.executing_eagerly():
        return None
    session = session or tf.compat.v1.get_default_session()
    if session is None:
        raise ValueError(f"{user} in a graph needs a session: give sess, or call it within one")
    return session


def _dumps_of(variables: Sequence[Any], optimizer: Any) -> list[DumpedTable]:
    _check_files_differ(variables)
    optimizer = None if optimizer is None else _optimizer_in(optimizer)
    return [
        DumpedTable(
            variable,
            variable.dump_name or variable.name,
            _key_dtype(variable),
            "headed",
            {} if optimizer is None else _slots_of(variable, optimizer),
            _SAVED_AS,
            variable.global_shape[0] if isinstance(variable, StaticVariable) else None,
        )
        for variable in variables
    ]


def _check_files_differ(variables: Sequence[Any]) -> None:
    by_stem: dict[str, Any] = {}
    for variable in variables:
        name = variable.dump_name or variable.name
        other = by_stem.setdefault(file_stem(name), name)
        if other is not name:
            raise ValueError(
                f"{other} and {name} would have the same files, {file_stem(name)}-...: use two "
                "folders, or other names"
            )


def _key_dtype(variable: Any) -> np.dtype:
    """That of SparseOperationKit's files."""
    if isinstance(variable, DynamicVariable):
        return np.dtype(variable.key_type.as_numpy_dtype)
    return np.dtype(np.int64 if variable.target_gpu < 0 else np.uint64)


def _optimizer_in(optimizer: Any) -> Any:
    if isinstance(optimizer, (list, tuple)):
        if len(optimizer) != 1:
            raise ValueError(f"optimizer must be one optimizer, got {len(optimizer)}")
        (optimizer,) = optimizer
    return optimizer.optimizer if isinstance(optimizer, OptimizerWrapper) else checked(optimizer)


def _slots_of(variable: Any, optimizer: Any) -> dict[tuple[str, str], SlotVariable]:
    """{(optimizer, slot): SlotVariable}, with names as in files."""
    kind = type(optimizer).__name__
    called = next((name for name in _OPTIMIZERS if name.lower() in kind.lower()), kind)
    names = _SLOT_NAMES if is_newer_keras(optimizer) else {}
    return {
        (called, names.get((called, name), name)): slot
        for name, slot in slots_by_name(optimizer, variable).items()
    }


def _nanoseconds(threshold: Any) -> int:
    if not isinstance(threshold, datetime.datetime):
        raise TypeError(f"time_threshold must be a datetime, got {threshold!r}")
    if threshold.tzinfo is None:
        raise ValueError(f"time_threshold must have a time zone, got {threshold!r}")
    return (threshold - _EPOCH) // datetime.timedelta(microseconds=1) * 1000


def _used_after(variable: Any, moment: int, session: Any) -> tuple[np.ndarray, np.ndarray]:
    keys, rows, moments = _own_contents(variable, session)
    is_used = moments > moment
    data = io.BytesIO()
    np.savez(data, keys=keys[is_used], rows=rows[is_used])
    graph = None if session is None else session.graph
    parts = [
        np.load(io.BytesIO(part))
        for part in allgather_bytes("incremental_model_dump", data.getvalue(), graph)
    ]
    keys = np.concatenate([part["keys"] for part in parts])
    order = np.argsort(keys, kind="stable")
    rows = np.concatenate([part["rows"] for part in parts])[order]
    return keys[order].astype(variable.key_type.as_numpy_dtype), rows


def _own_contents(variable: Any, session: Any) -> list[np.ndarray]:
    """(keys, rows, moments of last uses) of this rank."""
    if session is None:
        keys, rows = variable.export()
        return [keys.numpy(), rows.numpy(), variable.key_history(keys)[1].numpy()]
    graph = session.graph
    ops_of_graph = state_of(graph).exports
    if variable.table_name not in ops_of_graph:
        with members.extending(graph):
            keys, rows = variable.export()
            ops_of_graph[variable.table_name] = [keys, rows, variable.key_history(keys)[1]]
    return session.run(ops_of_graph[variable.table_name])


__all__ = ["dump", "incremental_dump", "incremental_model_dump", "load"]
