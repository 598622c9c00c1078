# SPDX-License-Identifier: Apache-2.0
"""Dumps tables of all ranks to files with headers, and loads them; both by way of a checkpoint.

The checkpoint brings what every save and restore has: a cut between steps, any number of ranks,
and tables that stay as they were if something fails. It is temporary.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from sok_compat.checkpoint.files.bundle import Bundle
from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.files.headed_files import (
    HeadedDump,
    open_headed_dump,
    write_headed_dump,
)
from sok_compat.checkpoint.files.stored_array import PIECE_BYTES, StoredArray, together
from sok_compat.checkpoint.parts.rows_saveable import RowsSaveable
from sok_compat.checkpoint.streams.checked_restore import CheckedRestore
from sok_compat.checkpoint.streams.files_of_rank_0 import path_on_this_rank
from sok_compat.checkpoint.streams.progress import bytes_in, bytes_to_read, logged, note_bytes
from sok_compat.checkpoint.streams.streamed_save import save_checkpoint
from sok_compat.ranks.allgather_strings import value_of_rank_0
from sok_compat.ranks.identity import current_ranks
from sok_compat.runtime.op_library import ops
from sok_compat.tables.slot_variable import SlotVariable
from sok_compat.tables.table import Table

tf1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class TableDump:
    """A table with what is dumped of it.

    table: the Table.
    name: of the dumped table; its files' names begin with it.
    key_dtype: of the keys in files that are written.
    slots: {(optimizer, slot): SlotVariable}, names as in the files.
    others: {(optimizer, slot): other names of the optimizer in files that are read}.
    num_keys: the keys are 0 to num_keys - 1, and files hold all of them; None: any keys.
    """

    table: Table
    name: str
    key_dtype: np.dtype
    slots: Mapping[tuple[str, str], SlotVariable] = dataclasses.field(default_factory=dict)
    others: Mapping[tuple[str, str], Sequence[str]] = dataclasses.field(default_factory=dict)
    num_keys: int | None = None


def dump_tables(folder: str, dumps: Sequence[TableDump], session: Any) -> None:
    """Writes the files of all tables; an earlier dump of a table stays until its new one is
    complete. All ranks call this together; rank 0 writes the files.

    Args:
      folder: made if need be.
      dumps: at least one, the same tables on all ranks.
      session: that has the tables; None in eager mode.

    Raises:
      FileError, OSError: a file cannot be written; on other ranks tf.errors.UnknownError.
      tf.errors.OpError: the tables cannot be read.
    """
    graph = None if session is None else session.graph
    prefix = value_of_rank_0("begin_dump", lambda: _new_prefix_in(folder), graph)
    try:
        save = _save_eagerly if session is None else _save
        with logged(f"collecting tables for {folder}", _bytes_of(dumps, session)):
            _run(session, lambda: save(prefix, dumps))
    except BaseException:
        _remove_folder_of(prefix)
        raise

    def write() -> None:
        try:
            bundle = Bundle(prefix)
            arrays = [_arrays_in(bundle, number, dump) for number, dump in enumerate(dumps)]
            to_write = sum(array.num_bytes for array in itertools.chain(*arrays))
            with logged(f"writing {folder}", to_write):
                for dump, of_table in zip(dumps, arrays):
                    _write(folder, dump, of_table)
        finally:
            _remove_folder_of(prefix)

    value_of_rank_0("end_dump", write, graph)


def load_tables(folder: str, dumps: Sequence[TableDump], session: Any) -> None:
    """Replaces the contents of tables by those of their files. All ranks call this together; rank
    0 reads the files, which any number of ranks has written.

    Slots of the tables that are not in `dumps` start with their initial values.

    Args:
      folder: of the files.
      dumps: as of dump_tables.
      session: as of dump_tables.

    Raises:
      FileError, OSError: a file is missing or damaged, or does not fit its table; on other ranks
        tf.errors.UnknownError. The tables are as they were.
      tf.errors.OpError: the same, found when the tables are filled.
    """
    graph = None if session is None else session.graph
    prefix = value_of_rank_0("begin_load", lambda: _as_checkpoint(folder, dumps), graph)
    try:
        with path_on_this_rank(prefix, graph) as path:
            holds_keys = _bytes_of(dumps, session) > 0
            with logged(f"loading {folder}", bytes_to_read(path, holds_keys)):
                _run(session, lambda: _restore(path, dumps))
            value_of_rank_0("end_load", lambda: None, graph)
    finally:
        _remove_folder_of(prefix)


def _bytes_of(dumps: Sequence[TableDump], session: Any) -> int:
    """About how many bytes of the tables a checkpoint would have, on this rank."""
    return int(_run(session, lambda: bytes_in(dump.table for dump in dumps)))


def _run(session: Any, make: Callable[[], Any]) -> Any:
    """What `make` returns, eagerly or, of its ops in a graph, in the session."""
    if session is None:
        return make()
    with session.graph.as_default():
        return session.run(make())


def _title(number: int) -> str:
    return f"table_{number}"


def _slot_title(number: int, slot: int) -> str:
    return f"{_title(number)}/slots/{slot}"


def _saveables(dumps: Sequence[TableDump], of_all_slots: bool = False) -> list[RowsSaveable]:
    """Of the dumped slots; of_all_slots: followed by the table's others, as a save demands."""
    saveables = []
    for number, dump in enumerate(dumps):
        slots = list(dump.slots.values())
        for slot in [*dump.table.slots, *dump.table.living_slots()] if of_all_slots else []:
            if all(slot is not each for each in slots):
                slots.append(slot)
        titles = [_slot_title(number, place) for place in range(len(slots))]
        saveables.append(RowsSaveable(dump.table, _title(number), titles, slots=slots))
    return saveables


def _new_prefix_in(folder: str) -> str:
    os.makedirs(folder, exist_ok=True)
    return os.path.join(tempfile.mkdtemp(prefix=".dump-", dir=folder), "tables")


def _remove_folder_of(prefix: str) -> None:
    if current_ranks().rank > 0:  # others may need it still
        return
    shutil.rmtree(os.path.dirname(prefix), ignore_errors=True)


def _save(prefix: str, dumps: Sequence[TableDump]) -> tf.Operation:
    # Reading all rows gives those that no step has used their first values.
    whole = [dump.table for dump in dumps if dump.num_keys is not None]
    with tf.control_dependencies(
        [ops.sok_read_rows(table.handle, table.table_handle) for table in whole]
    ):
        return save_checkpoint(tf.constant(prefix), _saveables(dumps, of_all_slots=True), [])


def _save_eagerly(prefix: str, dumps: Sequence[TableDump]) -> None:
    # One step of all ranks, which fails as a whole.
    @tf.function(autograph=False)
    def save_all() -> None:
        _save(prefix, dumps)

    save_all.get_concrete_function()()  # no warning of many functions


def _arrays_in(bundle: Bundle, number: int, dump: TableDump) -> list[StoredArray]:
    titles = [f"{_title(number)}/keys", f"{_title(number)}/rows"]
    titles += [_slot_title(number, slot) for slot in range(len(dump.slots))]
    return [bundle.array(title) for title in titles]


def _write(folder: str, dump: TableDump, arrays: list[StoredArray]) -> None:
    most_rows = max(1, PIECE_BYTES // sum(array.row_bytes for array in arrays))

    def pieces() -> Iterator[tuple[np.ndarray, ...]]:
        for keys, *planes in together(arrays, most_rows):
            note_bytes(sum(array.nbytes for array in (keys, *planes)))
            if dump.num_keys is not None:  # a rank without keys has a row all the same
                is_key = keys < dump.num_keys
                keys, planes = keys[is_key], [plane[is_key] for plane in planes]
            yield keys, *planes

    write_headed_dump(folder, dump.name, dump.slots, dump.key_dtype, pieces())


def _as_checkpoint(folder: str, dumps: Sequence[TableDump]) -> str:
    """Writes a temporary checkpoint of dumped tables, and returns its path."""
    if not os.path.isdir(folder):
        raise FileError(f"{folder} is no folder with dumped tables")
    opened = []
    for dump in dumps:
        stored = open_headed_dump(
            folder, dump.name, {each: dump.others.get(each, ()) for each in dump.slots}
        )
        _check_fits(dump, stored)
        opened.append(stored)
    prefix = os.path.join(tempfile.mkdtemp(prefix="sok_load-"), "tables")
    arrays = [each for of in opened for each in (of.keys, of.rows, *of.slots.values())]
    try:
        with logged(f"reading {folder}", sum(array.num_bytes for array in arrays)):
            _write_checkpoint(prefix, dumps, opened)
    except BaseException:
        _remove_folder_of(prefix)
        raise
    return prefix


def _check_fits(dump: TableDump, stored: HeadedDump) -> None:
    if dump.num_keys is not None and stored.keys.shape[0] != dump.num_keys:
        raise FileError(
            f"{stored.keys.paths} has {stored.keys.shape[0]} keys, but {dump.name} has "
            f"{dump.num_keys} rows"
        )
    widths = [dump.table.dim, *(slot.width for slot in dump.slots.values())]
    for array, width in zip((stored.rows, *stored.slots.values()), widths):
        if array.shape[0] and array.shape[1] != width:
            raise FileError(
                f"{', '.join(array.paths)} has rows of {array.shape[1]} numbers, but those of "
                f"{dump.name} have {width}"
            )


def _write_checkpoint(
    prefix: str, dumps: Sequence[TableDump], opened: Sequence[HeadedDump]
) -> None:
    """Writes one array at a time, to limit the memory."""
    parts: list[str] = []
    with tf.Graph().as_default(), tf1.Session() as session, tf.device("CPU:0"):
        fed = {dtype: tf1.placeholder(dtype) for dtype in (tf.int64, tf.float32)}
        part, title = tf1.placeholder(tf.string, []), tf1.placeholder(tf.string, [1])
        save = {
            dtype: tf.raw_ops.SaveV2(
                prefix=part, tensor_names=title, shape_and_slices=[""], tensors=[value]
            )
            for dtype, value in fed.items()
        }

        def add(name: str, array: StoredArray, dtype: tf.DType, width: int | None) -> None:
            parts.append(f"{prefix}-{len(parts)}")
            shape = array.shape if width is None else (array.shape[0], width)
            whole = np.empty(shape, dtype.as_numpy_dtype)
            for first, piece in array.pieces():
                note_bytes(piece.nbytes)
                whole[first : first + len(piece)] = piece
            session.run(save[dtype], {part: parts[-1], title: [name], fed[dtype]: whole})

        for number, (dump, stored) in enumerate(zip(dumps, opened)):
            add(f"{_title(number)}/keys", stored.keys, tf.int64, None)
            add(f"{_title(number)}/rows", stored.rows, tf.float32, dump.table.dim)
            for slot, variable in enumerate(dump.slots.values()):
                array = [*stored.slots.values()][slot]
                add(_slot_title(number, slot), array, tf.float32, variable.width)
        session.run(
            tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=prefix)
        )


def _restore(path: str, dumps: Sequence[TableDump]) -> tf.Operation | None:
    """Returns the op that fills the tables; in eager mode fills them."""
    saveables = _saveables(dumps)
    checked = CheckedRestore(tf.constant(path), saveables, [])
    done: list[Any] = []
    end = None
    try:
        for each in saveables:
            each.path, each.restored = checked.path, done
            each.restore(None, None)
    finally:
        end = checked.end([op for op in done if op is not None])
    return end
