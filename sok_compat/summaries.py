# SPDX-License-Identifier: Apache-2.0
"""Figures of tables, ranks and checkpoints: as a dict, and as summaries for TensorBoard."""

from __future__ import annotations

import collections
import dataclasses
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from sok_compat.checkpoint.streams.progress import restored, saved
from sok_compat.ranks.identity import communication_stats, current_ranks
from sok_compat.runtime.op_library import TAKE_FIGURES, c_library, ops
from sok_compat.tables.table import Table

_FIGURES = (
    "keys", "megabytes", "new_keys_per_step", "evicted_keys_per_step", "keys_without_row",
    "share_of_keys_with_row",
)  # fmt: skip
_FIGURES_OF_FILES = (
    "resident_megabytes",
    "share_of_rows_found_in_memory",
    "megabytes_read_per_step",
    "megabytes_written_per_step",
)
_MOVED = ("saves/seconds", "saves/megabytes", "restores/seconds", "restores/megabytes")
_STATISTICS = (  # as the op library
    "keys", "rows", "evicted", "waiting", "capacity", "bytes", "resident_bytes", "file_bytes",
    "rows_requested", "rows_missed", "bytes_read", "bytes_written",
)  # fmt: skip


def stats() -> dict[str, Any]:
    """Returns what this process's tables hold, and what has been exchanged, saved and restored.

    Added by sok_compat. It asks the op library, not a session, so a thread of its own may call it
    while others train: a table with a limit of keys may then show new keys beside those that they
    evict. It waits while a table is saved or restored.

    Returns:
      A dict of dicts, whose numbers are those of this rank since it started:
      'tables': {name of a table: {'keys': held now, 'rows': that have memory, 'evicted': keys since
      the table was made, 'waiting': keys that a filter counts, without a row, 'capacity': in keys,
      'bytes': of rows, slots and the index, 'resident_bytes': of these, in memory; of tables in
      files, since they were made: 'file_bytes': on the disk, 'rows_requested' by lookups,
      'rows_missed': of these, not in memory, 'bytes_read', 'bytes_written': of pages that left
      memory}}; a second table of a name, as of another session, is 'name (2)'.
      'ranks': {'rank', 'size', and the counters of `communication_stats`}.
      'saves', 'restores': {'count', 'seconds', 'bytes'}, of tables; the bytes also of those that
      failed.
    """
    tables: dict[str, dict[str, int]] = {}

    numbers: collections.Counter[str] = collections.Counter()

    def take(encoded, figures):
        name = encoded.decode()
        numbers[name] += 1
        if numbers[name] > 1:
            name = f"{name} ({numbers[name]})"
        tables[name] = dict(zip(_STATISTICS, figures[: len(_STATISTICS)]))

    c_library.sok_table_statistics(TAKE_FIGURES(take))
    return {
        "tables": tables,
        "ranks": {
            **dataclasses.asdict(current_ranks()),
            **dataclasses.asdict(communication_stats()),
        },
        "saves": saved.figures(),
        "restores": restored.figures(),
    }


def summarize_tables(
    tables: Iterable[Table] | None = None, step: int | tf.Tensor | None = None
) -> tf.Tensor | None:
    """Writes figures of tables for TensorBoard, of the keys that this rank owns.

    For each table: keys; megabytes of its rows, slots and index; new keys and evicted keys a step;
    keys that a filter counts but that have no row, and the share of keys that have one. With
    several ranks also the megabytes that this rank has sent for lookups, a step. For tables in
    files also the megabytes in memory, the share of rows that lookups found there since the last
    figures, and the megabytes read and written, a step. Of this process's saves and restores the
    seconds and megabytes since it started, as `stats` has them.

    In a graph call it once, after the optimizer has made its slots. The summaries are in
    GraphKeys.SUMMARIES: `merge_all`, MonitoredTrainingSession and Estimators write them. In eager
    mode call it where figures are wanted; they go to the default writer of tf.summary.

    Args:
      tables: variables of any API; None: in a graph, all tables in it.
      step: of tf.summary; None: in a graph the global step, else tf.summary's.

    Returns:
      The merged summary, a scalar string tensor; None in eager mode.

    Raises:
      ValueError: no tables are given and the graph has none, or in eager mode; no step.
    """
    in_graph = not tf.compat.v1.executing_eagerly_outside_functions()
    if tables is None and in_graph:
        tables = [each for each in tf.compat.v1.global_variables() if isinstance(each, Table)]
    tables = list(tables or [])
    if not tables:
        raise ValueError("summarize_tables needs tables: the graph has none, or none are given")
    step = _step(step, in_graph)
    written = []
    for table in tables:
        statistics = ops.sok_table_statistics(table.table_handle)
        figures = tf.numpy_function(
            _figures_of(table, in_graph), [statistics, tf.cast(step, tf.int64)], tf.float32
        )
        names = _FIGURES + (_FIGURES_OF_FILES if table.file_attributes else ())
        for i, figure in enumerate(names):
            written.append(_write(f"{table.table_name}/{figure}", figures[i], step, in_graph))
    if any(table.placement.is_spread for table in tables):
        sent_by = _Sent() if in_graph else _eager_sent
        sent = tf.numpy_function(sent_by, [tf.cast(step, tf.int64)], tf.float32)
        written.append(_write("between_ranks/megabytes_per_step", sent, step, in_graph))
    moved = tf.numpy_function(_moved, [], tf.float32)
    for i, name in enumerate(_MOVED):
        written.append(_write(name, moved[i], step, in_graph))
    return tf.compat.v1.summary.merge(written) if in_graph else None


class _Rate:
    """The growth of a number since the last step that was written, for each step."""

    def __init__(self) -> None:
        self._last: tuple[int, float] | None = None

    def __call__(self, step: int, number: float) -> float:
        last_step, last_number = self._last or (step, number)
        self._last = (step, number)
        return (number - last_number) / max(1, step - last_step)


class _FiguresOf:
    """Computes _FIGURES of a table from what the op library knows of it."""

    def __init__(self) -> None:
        self._new, self._evicted, self._read, self._written = _Rate(), _Rate(), _Rate(), _Rate()
        self._requested, self._missed = _Rate(), _Rate()

    def __call__(self, statistics: np.ndarray, step: np.ndarray) -> np.ndarray:
        of = dict(zip(_STATISTICS, map(int, statistics)))
        keys, evicted, waiting = of["keys"], of["evicted"], of["waiting"]
        requested = self._requested(int(step), of["rows_requested"])
        missed = self._missed(int(step), of["rows_missed"])
        figures = (
            keys,
            of["bytes"] / 1e6,
            self._new(int(step), keys + evicted),
            self._evicted(int(step), evicted),
            waiting,
            keys / max(1, keys + waiting),
            of["resident_bytes"] / 1e6,
            1 - missed / requested if requested else 1.0,
            self._read(int(step), of["bytes_read"] / 1e6),
            self._written(int(step), of["bytes_written"] / 1e6),
        )
        return np.array(figures, np.float32)


class _Sent:
    """Computes the megabytes that this rank has sent for lookups, a step."""

    def __init__(self) -> None:
        self._rate = _Rate()

    def __call__(self, step: np.ndarray) -> np.ndarray:
        return np.float32(self._rate(int(step), communication_stats().payload_bytes / 1e6))


def _moved() -> np.ndarray:
    """_MOVED, of this process since it started."""
    both = (each.figures() for each in (saved, restored))
    return np.float32([x for each in both for x in (each["seconds"], each["bytes"] / 1e6)])


_eager_figures: dict[int, _FiguresOf] = {}  # by the table's id
_eager_sent = _Sent()


def _figures_of(table: Table, in_graph: bool) -> _FiguresOf:
    if in_graph:
        return _FiguresOf()
    if id(table) not in _eager_figures:
        _eager_figures[id(table)] = _FiguresOf()
        weakref.finalize(table, _eager_figures.pop, id(table))
    return _eager_figures[id(table)]


def _step(step: int | tf.Tensor | None, in_graph: bool) -> tf.Tensor:
    if step is None and in_graph:
        step = tf.compat.v1.train.get_or_create_global_step()
    elif step is None:
        step = tf.summary.experimental.get_step()
    if step is None:
        raise ValueError(
            "summarize_tables needs a step: pass step=, or call tf.summary.experimental.set_step"
        )
    return step


def _write(name: str, value: tf.Tensor, step: tf.Tensor, in_graph: bool) -> tf.Tensor:
    if in_graph:
        value.set_shape([])
        return tf.compat.v1.summary.scalar(name, value)
    return tf.summary.scalar(name, value, step)
