# SPDX-License-Identifier: Apache-2.0
"""tf.distribute strategies: those of one replica train tables as a script without one does."""

import contextlib
import functools

import tensorflow as tf

from sok_compat.runtime import integrations
from sok_compat.runtime.tf_versions import distribute


def raise_under_several_replicas(user):
    """Raises RuntimeError inside the scope of a tf.distribute strategy whose replicas, or workers,
    are several; `user` is who asks."""
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
            "replicas, and a table is for one. Give the strategy one device and one worker, as "
            "tf.distribute.MirroredStrategy(['CPU:0']) has, or use none; to train with "
            f"{count} processes, start such a script with horovodrun -np {count} and call "
            "hvd.init() first"
        )


def accept_strategies(is_part_of_table):
    """Makes strategies of one replica take tables as variables of their own, from now on.

    A strategy knows the variables that its scope has made, which are wrapped. A table is not: it
    may be made before the scope as well, and is what its optimizer gets.

    Args:
      is_part_of_table: a function of a variable: whether it is a table or a slot of one.
    """
    for name, adapt in {
        "tf.distribute.StrategyExtended.update": _updating,
        "tf.distribute.StrategyExtended.colocate_vars_with": _colocating,
        "tf.distribute.StrategyExtended.variable_created_in_scope": _knowing,
    }.items():
        integrations.apply(name, functools.partial(adapt, is_part_of_table=is_part_of_table))


def _updating(update, is_part_of_table):
    @functools.wraps(update)
    def update_tables(self, var, fn, args=(), kwargs=None, group=True):
        if not is_part_of_table(var):
            return update(self, var, fn, args, kwargs, group)
        _raise_for(var)
        if not distribute.has_strategy() or not distribute.in_cross_replica_context():
            return update(self, var, fn, args, kwargs, group)  # of a replica: it merges, and calls

        def update_table(*args, **kwargs):
            with tf.device(var.device):
                return fn(var, *args, **kwargs)

        return self.update_non_slot(self.non_slot_devices([var]), update_table, args, kwargs, group)

    return update_tables


def _colocating(colocate, is_part_of_table):
    @functools.wraps(colocate)
    def colocate_vars_with(self, colocate_with_variable):
        if not is_part_of_table(colocate_with_variable):
            return colocate(self, colocate_with_variable)
        _raise_for(colocate_with_variable)
        return contextlib.nullcontext()  # planes of the table go by it, other slots by the strategy

    return colocate_vars_with


def _knowing(variable_created_in_scope, is_part_of_table):
    @functools.wraps(variable_created_in_scope)
    def knows(self, v):
        if not is_part_of_table(v):
            return variable_created_in_scope(self, v)
        _raise_for(v)
        return True

    return knows


def _raise_for(variable):
    raise_under_several_replicas(f"a method of the table's variable {variable.name}")
