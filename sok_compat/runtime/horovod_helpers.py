# SPDX-License-Identifier: Apache-2.0
"""Horovod's helpers on tables: wrappers, broadcasts, and collectives that scripts call."""

import contextlib
import functools
import inspect
import threading

import tensorflow as tf

from sok_compat.runtime import integrations
from sok_compat.runtime.horovod_losses import with_gradients
from sok_compat.runtime.shared_gradients import (
    is_reduced,
    is_unknown,
    mark,
    mark_reduced,
    table_of,
)

COLLECTIVES_OF_DENSE = (
    "hvd.allgather",
    "hvd.grouped_allgather",
    "hvd.broadcast",
    "hvd.alltoall",
    "hvd.reducescatter",
    "hvd.grouped_reducescatter",
)
# .knows_tables: inside a wrapper that leaves tables out; .has_wrapper: inside compute_gradients of
# one, for which the optimizer that it wraps computes
_reducing = threading.local()


def leave_tables_out(horovod, is_sharded):
    """Makes Horovod's wrappers and broadcasts leave tables alone, also on one rank.

    There they would read the declared capacity. Its other broadcasts assign: see
    `horovod_ranks.is_broadcast`.

    Args:
      horovod: horovod.tensorflow.
      is_sharded: a function of a variable: whether it is a table, or a table's slot.
    """
    integrations.apply(
        "hvd.DistributedOptimizer", lambda make: _reducing_others(make, horovod, is_sharded)
    )
    integrations.apply(
        "hvd.broadcast_", lambda broadcast: _broadcasting_others(broadcast, is_sharded)
    )
    integrations.apply(
        "hvd.broadcast_variables",
        lambda broadcast: _broadcasting_others(broadcast, is_sharded, takes_none=True),
    )


def adapt_helpers(horovod, is_sharded, user):
    """Makes Horovod's helpers leave alone what each rank has its own part of; see integrations.py.

    Args:
      horovod: horovod.tensorflow.
      is_sharded: a function of a variable: whether it is a table, or a table's slot.
      user: what calls this, for messages.
    """
    leave_tables_out(horovod, is_sharded)
    integrations.apply(
        "hvd.DistributedOptimizer.compute_gradients",
        lambda compute: _refusing_early_wrappers(compute, is_sharded, user),
    )
    for name in ("hvd._allreduce_cond", "hvd._grouped_allreduce_cond"):
        integrations.apply(name, lambda reduce: _refusing_early_slices(reduce, user))
    integrations.apply("hvd.allreduce", lambda reduce: _passing_tables(reduce, horovod))
    integrations.apply("hvd.grouped_allreduce", lambda reduce: _passing_group(reduce, horovod))
    for name in COLLECTIVES_OF_DENSE:
        integrations.apply(name, functools.partial(_refusing_tables, name))


def after_each_init(call):
    """From now on, hvd.init() calls a function behind what it does."""
    integrations.apply("hvd.init", functools.partial(_and_then, call))


def refuse_early_tape(tape, tables, user):
    """Raises where a tape is Horovod's and would reduce the gradients of tables.

    Args:
      tape: a tf.GradientTape.
      tables: that it is asked for.
      user: what calls `adapt_helpers`.
    """
    reduce = getattr(tape, "_allreduce_grads", None)
    if reduce is not None and not getattr(reduce, "knows_tables", False):
        raise RuntimeError(_made_too_early("hvd.DistributedGradientTape", user, tables))


def _made_too_early(wrapper, user, tables):
    names = ", ".join(table.name for table in tables) or "tables, if these gradients are of any"
    return (
        f"call {user} before {wrapper}: this one was made earlier, and would mix up the ranks' "
        f"rows of {names}"
    )


def _broadcasting_others(broadcast, is_sharded, takes_none=False):
    @functools.wraps(broadcast)
    def broadcast_dense(variables, *args, **kwargs):
        dense = [variable for variable in variables if not is_sharded(variable)]
        return broadcast(dense, *args, **kwargs) if dense or takes_none else []

    return broadcast_dense


def _reducing_others(make, horovod, is_table):
    """Makes hvd.DistributedOptimizer leave the gradients of tables to the tables' own exchange.

    They are sums over all ranks already. Where the wrapper averages, they are divided by the number
    of ranks, as it does with what it calls local variables: with a loss that is a mean over the
    rank's batch, tables and dense variables then both see the mean over the global batch.
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
                _reduced_table(gradients[i], op, horovod) if i in tables else None
                for i in range(len(gradients))
            ]
            for i, gradient in zip(dense, reduced):
                result[i] = mark_reduced(gradient)
            return result

        reduce_gradients.knows_tables = True
        return reduce_gradients

    return make_allreduce_grads


def _refusing_early_wrappers(compute, is_table, user):
    """Makes wrappers from before this raise where they would reduce a table's gradient."""

    @functools.wraps(compute)
    def compute_gradients(self, *args, **kwargs):
        with _having("has_wrapper"):
            gradients = compute(self, *args, **kwargs)
        tables = [variable for _, variable in gradients if is_table(variable)]
        if tables and not getattr(self._allreduce_grads, "knows_tables", False):
            raise RuntimeError(_made_too_early("hvd.DistributedOptimizer", user, tables))
        return gradients

    return compute_gradients


def is_computed_for_wrapper():
    """Whether hvd.DistributedOptimizer is computing gradients here, which it then reduces."""
    return getattr(_reducing, "has_wrapper", False)


@contextlib.contextmanager
def _having(name):
    before = getattr(_reducing, name, False)
    setattr(_reducing, name, True)
    try:
        yield
    finally:
        setattr(_reducing, name, before)


def _refusing_early_slices(reduce, user):
    """Makes wrappers from before this raise for slices that may be a table's.

    In eager mode and functions they reduce in a function of their own, which gets gradients as its
    arguments: nobody can say there whose they are.
    """

    @functools.wraps(reduce)
    def reduce_known(tensors, *args, **kwargs):
        if not getattr(_reducing, "knows_tables", False):
            for tensor in _as_list(tensors):
                table = table_of(tensor)
                if table is not None or is_unknown(tensor):
                    tables = [] if table is None else [table]
                    raise RuntimeError(_made_too_early("hvd.DistributedOptimizer", user, tables))
        return reduce(tensors, *args, **kwargs)

    return reduce_known


def _passing_tables(reduce, horovod):
    """Makes hvd.allreduce give back a table's gradient: it is the sum over ranks that is asked for.

    Where it averages, divided by the number of ranks, as hvd.DistributedOptimizer does.
    """
    signature = inspect.signature(reduce)

    @functools.wraps(reduce)
    def reduce_others(*args, **kwargs):
        given = signature.bind(*args, **kwargs)
        table = table_of(given.args[0])
        if table is None:
            with with_gradients():
                return reduce(*args, **kwargs)
        return _as_if_reduced("hvd.allreduce", given, given.args[0], table, horovod)

    return reduce_others


def _passing_group(reduce, horovod):
    signature = inspect.signature(reduce)

    @functools.wraps(reduce)
    def reduce_others(*args, **kwargs):
        given = signature.bind(*args, **kwargs)
        tensors = list(given.args[0])
        tables = [table_of(tensor) for tensor in tensors]
        dense = [i for i, table in enumerate(tables) if table is None]
        if len(dense) == len(tensors):
            with with_gradients():
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


def _as_if_reduced(name, given, gradient, table, horovod):
    """A table's gradient, scaled as hvd.allreduce with the arguments `given` would."""
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
            "ranks, and a process_set"
        )
    if not isinstance(gradient, tf.IndexedSlices) and not gradient.dtype.is_floating:
        raise ValueError(_refusal(name, table))
    scale = options["prescale_factor"] * options["postscale_factor"]
    return mark(_reduced_table(gradient, op, horovod, scale), table)


def _reduced_table(gradient, op, horovod, scale=1.0):
    """A table's gradient where that of an ordinary variable would be reduced by Sum or Average.

    As it comes it is a sum over ranks; after a reduction it is what each rank has the same of, and
    once more summed that N times.
    """
    before = gradient is not None and is_reduced(gradient)
    if op == horovod.Average and not before:
        scale /= horovod.size()
    elif op == horovod.Sum and before:
        scale *= horovod.size()
    return mark_reduced(_scaled(gradient, scale))


def _refusing_tables(name, collective):
    signature = inspect.signature(collective)

    @functools.wraps(collective)
    def of_others(*args, **kwargs):
        for tensor in _as_list(signature.bind(*args, **kwargs).args[0]):
            table = table_of(tensor)
            if table is not None:
                raise ValueError(_refusal(name, table))
        with with_gradients():
            return collective(*args, **kwargs)

    return of_others


def _refusal(name, table):
    return (
        f"{name} got (a part of) the gradient of the table {table.table_name}. It is a sum over "
        "ranks already, of the rows that this rank owns, and the same row ids are other rows on "
        f"other ranks: apply it as it is. {table.words.clip} clips by a norm over all ranks"
    )


def _as_list(tensors):
    return tensors if isinstance(tensors, (list, tuple)) else [tensors]


def _scaled(gradient, scale):
    if gradient is None or scale == 1.0:
        return gradient
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values * scale, gradient.indices, gradient.dense_shape)
    return gradient * scale


def _and_then(call, init):
    @functools.wraps(init)
    def init_and_call(*args, **kwargs):
        done = init(*args, **kwargs)
        call()
        return done

    return init_and_call
