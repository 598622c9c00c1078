# SPDX-License-Identifier: Apache-2.0
"""Adapts Horovod's helpers to tables: wrappers, broadcasts, and collectives in scripts."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from sok_compat.ranks.horovod.integrations import COLLECTIVES
from sok_compat.ranks.horovod.losses import with_gradients
from sok_compat.ranks.horovod.passes import keeping_slices
from sok_compat.ranks.shared_gradients import (
    is_handle_of_plane,
    is_unknown,
    mark,
    mark_reduced,
    reduced_table,
    table_of,
)
from sok_compat.runtime import integrations

# .knows_tables: inside a wrapper that leaves tables out; .has_wrapper: inside its compute_gradients
_reducing = threading.local()


def leave_tables_out(horovod: Any, is_sharded: Callable[[tf.Variable], bool]) -> None:
    """Makes Horovod's wrappers and broadcasts leave out tables and slots, also on one rank.

    On one rank, they would read the table's declared capacity. Horovod's other broadcasts assign;
    see `communicator.is_broadcast`.
    """
    integrations.apply(
        "hvd.DistributedOptimizer", lambda make: _reducing_others(make, horovod, is_sharded)
    )
    integrations.apply(
        "hvd.DistributedOptimizer.compute_gradients",
        lambda compute: keeping_slices(compute, is_sharded),
    )

    def dense(variables):
        return [variable for variable in variables if not is_sharded(variable)]

    integrations.apply("hvd.broadcast_variables", lambda make: _broadcasting(dense, make))
    integrations.apply(
        "hvd.broadcast_variables, in place",
        lambda make: _broadcasting(lambda lists: [*filter(None, map(dense, lists))], make),
    )


def adapt_helpers(horovod: Any, is_sharded: Callable[[tf.Variable], bool]) -> None:
    """Makes Horovod's helpers leave out tables and slots; see integrations."""
    integrations.apply(
        "hvd.DistributedOptimizer.compute_gradients",
        lambda compute: _knowing_tables(keeping_slices(compute, is_sharded), is_sharded),
    )
    leave_tables_out(horovod, is_sharded)
    integrations.apply("hvd.allreduce", lambda reduce: _passing_tables(reduce, horovod))
    integrations.apply("hvd.grouped_allreduce", lambda reduce: _passing_group(reduce, horovod))
    integrations.apply("hvd.mpi_ops.MPI_LIB, whose ops all collectives are", _CollectivesOfDense)


def refuse_early_tape(tape: tf.GradientTape, tables: list[tf.Variable]) -> None:
    """Raises RuntimeError if a tape is Horovod's and would reduce the gradients of tables."""
    reduce = getattr(tape, "_allreduce_grads", None)
    if reduce is not None and not getattr(reduce, "knows_tables", False):
        raise RuntimeError(_made_too_early("hvd.DistributedGradientTape", tables))


def _made_too_early(wrapper, tables):
    names = ", ".join(table.name for table in tables) or "tables, if these gradients are of any"
    return (
        f"make {wrapper} after the first table: this one was made earlier, and would mix up the "
        f"ranks' rows of {names}"
    )


def _broadcasting(dense, make):
    @functools.wraps(make)
    def make_broadcast_of_dense():
        broadcast = make()
        return lambda variables, *args: broadcast(dense(variables), *args)

    return make_broadcast_of_dense


def _reducing_others(make, horovod, is_table):
    """Makes hvd.DistributedOptimizer leave the gradients of tables to the tables' own exchange.

    They are already sums over all ranks. If the wrapper averages, they are divided by the number of
    ranks, as it does for local variables. With a loss that is the mean over a rank's batch, tables
    and dense variables then both get the gradient of the mean over the global batch.
    """

    @functools.wraps(make)
    def make_allreduce_grads(*args, **kwargs):
        reduce_dense = make(*args, **kwargs)
        op = kwargs.get("op", args[5] if len(args) > 5 else horovod.Average)

        def reduce_gradients(gradients, variables=None, *rest, **named):
            variables = list(variables or [])
            tables = {i for i, variable in enumerate(variables) if is_table(variable)}
            dense = [i for i in range(len(gradients)) if i not in tables]
            with _having("knows_tables"):
                reduced = reduce_dense(
                    [gradients[i] for i in dense], [variables[i] for i in dense], *rest, **named
                )
            result = [
                reduced_table(gradients[i], op, horovod) if i in tables else None
                for i in range(len(gradients))
            ]
            for i, gradient in zip(dense, reduced):
                result[i] = mark_reduced(gradient)
            return result

        reduce_gradients.knows_tables = True
        return reduce_gradients

    return make_allreduce_grads


def _knowing_tables(compute, is_table):
    """Makes wrappers from before this change treat gradients of tables like later ones.

    They reduce gradients one by one, by `hvd.allreduce`, which returns a table's unchanged, but
    without its mark if inside a condition. A wrapper that first sums gradients over several steps,
    in variables, raises.
    """

    @functools.wraps(compute)
    def compute_gradients(self, *args, **kwargs):
        with _having("has_wrapper"):
            gradients = compute(self, *args, **kwargs)
        if getattr(self._allreduce_grads, "knows_tables", False):
            return gradients
        tables = [variable for _, variable in gradients if is_table(variable)]
        if tables and self._agg_helper is not None:
            raise RuntimeError(_made_too_early("hvd.DistributedOptimizer", tables))
        return [
            (_marked_as_reduced(gradient, variable, is_table), variable)
            for gradient, variable in gradients
        ]

    return compute_gradients


def _marked_as_reduced(gradient, variable, is_table):
    gradient = mark_reduced(gradient)
    return mark(gradient, variable) if gradient is not None and is_table(variable) else gradient


def is_computed_for_wrapper() -> bool:
    """Whether the gradients being computed are for hvd.DistributedOptimizer to reduce."""
    return getattr(_reducing, "has_wrapper", False)


@contextlib.contextmanager
def _having(name):
    before = getattr(_reducing, name, False)
    setattr(_reducing, name, True)
    try:
        yield
    finally:
        setattr(_reducing, name, before)


def _known_table_of(gradient):
    """As table_of.

    Raises:
      RuntimeError: the gradient is slices that a function got as arguments, of an unknown variable.
        Wrappers from before the changes call such a function, in eager mode and functions.
    """
    table = table_of(gradient)
    if table is None and is_unknown(gradient) and not getattr(_reducing, "knows_tables", False):
        raise RuntimeError(
            f"{_made_too_early('hvd.DistributedOptimizer', [])}. In a tf.function of the script's, "
            "compute the gradients in the function that reduces them"
        )
    return table


def _passing_tables(reduce, horovod):
    """Makes hvd.allreduce return a table's gradient, which is already the sum over ranks.

    For an average, it is divided by the number of ranks, as by hvd.DistributedOptimizer.
    """
    signature = inspect.signature(reduce)

    @functools.wraps(reduce)
    def reduce_others(*args, **kwargs):
        given = signature.bind(*args, **kwargs)
        table = _known_table_of(given.args[0])
        if table is None:
            return reduce(*args, **kwargs)
        return _as_if_reduced("hvd.allreduce", given, given.args[0], table, horovod)

    return reduce_others


def _passing_group(reduce, horovod):
    signature = inspect.signature(reduce)

    @functools.wraps(reduce)
    def reduce_others(*args, **kwargs):
        given = signature.bind(*args, **kwargs)
        tensors = list(given.args[0])
        tables = [_known_table_of(tensor) for tensor in tensors]
        dense = [i for i, table in enumerate(tables) if table is None]
        if len(dense) == len(tensors):
            return reduce(*args, **kwargs)
        result = [
            None
            if table is None
            else _as_if_reduced("hvd.grouped_allreduce", given, tensor, table, horovod)
            for tensor, table in zip(tensors, tables)
        ]
        given.arguments["tensors"] = [tensors[i] for i in dense]
        for i, reduced in zip(dense, reduce(*given.args, **given.kwargs)):
            result[i] = reduced
        return result

    return reduce_others


@tf.autograph.experimental.do_not_convert
def _as_if_reduced(name, given, gradient, table, horovod):
    """A table's gradient, scaled as hvd.allreduce would with the arguments `given`."""
    given = inspect.BoundArguments(given.signature, given.arguments.copy())
    given.apply_defaults()
    options = given.arguments
    op = horovod.handle_average_backwards_compatibility(options["op"], options["average"])
    if op not in (horovod.Sum, horovod.Average):
        raise ValueError(
            f"{name} got the gradient of the table {table.table_name}, which is a sum over ranks: "
            "op must be hvd.Sum or hvd.Average"
        )
    if options["process_set"] is not horovod.global_process_set:
        raise ValueError(
            f"{name} got the gradient of the table {table.table_name}, which is a sum over all "
            "ranks: process_set must be left out"
        )
    if not isinstance(gradient, tf.IndexedSlices) and not gradient.dtype.is_floating:
        raise ValueError(_refusal(name, table))
    scale = options["prescale_factor"] * options["postscale_factor"]
    return mark(reduced_table(gradient, op, horovod, scale), table)


class _CollectivesOfDense:
    """Replaces the module of Horovod's ops: its collectives refuse gradients of tables."""

    def __init__(self, library):
        self._library = library

    def __getattr__(self, name):
        op = getattr(self._library, name)
        return _refusing_tables(op, name) if name in COLLECTIVES else op


def _refusing_tables(op, name):
    collective = f"hvd.{name.removeprefix('horovod_')}"

    @tf.autograph.experimental.do_not_convert  # it would warn that `op` has no source code
    @functools.wraps(op)
    def op_of_dense(tensors, *args, **kwargs):
        for tensor in tensors if isinstance(tensors, (list, tuple)) else [tensors]:
            if is_handle_of_plane(tensor):
                raise ValueError(
                    "hvd.broadcast_ got a table or a slot of one, of which each rank has its own "
                    "rows: leave it out, or call hvd.broadcast_variables, which does"
                )
            table = table_of(tensor)
            if table is not None:
                raise ValueError(_refusal(collective, table))
        with with_gradients():
            return op(tensors, *args, **kwargs)

    return op_of_dense


def _refusal(name, table):
    return (
        f"{name} got (a part of) the gradient of the table {table.table_name}. It is a sum over "
        "ranks already, of the rows that this rank owns, and a row id means a different row on "
        f"each rank: apply it as it is. {table.words.clip} clips by a norm over all ranks"
    )
