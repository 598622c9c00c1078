# SPDX-License-Identifier: Apache-2.0
"""tf.distribute strategies: those with one replica train tables as scripts without one do."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from sok_compat.runtime import integrations
from sok_compat.runtime.tf_versions import distribute, moving_averages

_around_updates: list[Callable[..., Any]] = []  # see around_updates
_around_slots: list[Callable[..., Any]] = []  # see around_slots


def raise_under_several_replicas(user: str) -> None:
    """Raises RuntimeError in the scope of a tf.distribute strategy with several replicas or
    workers; `user` is what was called, for the message."""
    if not distribute.has_strategy():
        return
    strategy = distribute.get_strategy()
    if isinstance(strategy, distribute.ParameterServerStrategy):
        raise RuntimeError(
            f"{user} was called under tf.distribute's {type(strategy).__name__}: a table is on "
            "the process that looks its keys up, not on a parameter server. Use "
            "MirroredStrategy with one device, or no strategy, and horovodrun for several "
            "processes"
        )
    count = strategy.num_replicas_in_sync
    if count > 1:
        raise RuntimeError(
            f"{user} was called under tf.distribute's {type(strategy).__name__} with {count} "
            "replicas, but a table works with one only. Give the strategy one device and one "
            "worker, as tf.distribute.MirroredStrategy(['CPU:0']) has, or use none; to train with "
            f"{count} processes, start such a script with horovodrun -np {count} and call "
            "hvd.init() first"
        )


class OfAnyStrategy:
    """Base class, before BaseResourceVariable, of variables that belong to any strategy with one
    replica: they may be created before its scope, and are not wrapped."""

    @property
    def _distribute_strategy(self):
        raise_under_several_replicas(f"a method of the table's variable {self.name}")
        return distribute.get_strategy() if distribute.has_strategy() else None

    @_distribute_strategy.setter
    def _distribute_strategy(self, strategy):
        """Ignores the strategy in which TensorFlow creates the variable."""


def accept_strategies(is_part_of_table: Callable[[tf.Variable], bool]) -> None:
    """Makes strategies, including the default one, update tables and create slots for them."""
    for name, adapt in {
        "tf.distribute.StrategyExtended.update": _updating,
        "tf.distribute.StrategyExtended.colocate_vars_with": _colocating,
        "tf.distribute.get_strategy().extended.colocate_vars_with": _colocating,
    }.items():
        integrations.apply(name, functools.partial(adapt, is_part_of_table=is_part_of_table))


def around_updates(adapt: Callable[[Any, Callable[..., Any]], Callable[..., Any]]) -> None:
    """Wraps the functions by which optimizers update tables from now on: adapt(table or slot,
    function that updates it) returns the function to call instead."""
    if adapt not in _around_updates:
        _around_updates.append(adapt)


def around_slots(context_of: Callable[[Any], AbstractContextManager[Any]]) -> None:
    """Lets optimizers create a variable's slots inside context_of(variable) from now on."""
    if context_of not in _around_slots:
        _around_slots.append(context_of)


def _updating(update, is_part_of_table):
    @functools.wraps(update)
    def update_tables(self, var, fn, args=(), kwargs=None, group=True):
        _raise_for_averages(fn, args, is_part_of_table)
        if not is_part_of_table(var):
            return update(self, var, fn, args, kwargs, group)
        raise_under_several_replicas(f"an update of the table's variable {var.name}")
        if distribute.has_strategy() and not distribute.in_cross_replica_context():
            return update(
                self, var, fn, args, kwargs, group
            )  # it merges replicas, and calls this again
        for adapt in _around_updates:
            fn = adapt(var, fn)
        if not distribute.has_strategy():
            return update(self, var, fn, args, kwargs, group)

        def update_table(*args, **kwargs):
            with tf.device(var.device):
                return fn(var, *args, **kwargs)

        return self.update_non_slot(self.non_slot_devices([var]), update_table, args, kwargs, group)

    return update_tables


def _raise_for_averages(update, args, is_part_of_table):
    """Raises if tf.train.ExponentialMovingAverage updates an average by a table itself."""
    if getattr(update, "__module__", None) != moving_averages.__name__:
        return
    tables = [each for each in args if is_part_of_table(each)]
    if tables:
        raise NotImplementedError(
            f"tf.train.ExponentialMovingAverage cannot average tables, got {tables[0].name}: a row "
            "comes with its key, and its average would start from zeros. Average the other "
            f"variables: {tables[0].words.others}"
        )


def _colocating(colocate, is_part_of_table):
    @functools.wraps(colocate)
    def colocate_vars_with(self, colocate_with_variable):
        variable = colocate_with_variable
        if not is_part_of_table(variable):
            context = colocate(self, variable)
        else:  # the strategy does not wrap slots of tables
            raise_under_several_replicas(f"a slot of the table's variable {variable.name}")
            context = contextlib.nullcontext()
        return _all_of(context, *(context_of(variable) for context_of in _around_slots))

    return colocate_vars_with


@contextlib.contextmanager
def _all_of(*contexts):
    with contextlib.ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield
