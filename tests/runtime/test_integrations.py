# SPDX-License-Identifier: Apache-2.0
"""Each change to TensorFlow and Horovod is made once, can be undone, and is not made blindly."""

import functools
import inspect
import re
from unittest import mock

import pytest

from sok_compat.checkpoint import sessions
from sok_compat.checkpoint.frozen_graphs import refuse_to_freeze_tables
from sok_compat.checkpoint.init_from_checkpoint import initialize_tables_from_checkpoints
from sok_compat.checkpoint.tf_saver import save_tables_in_checkpoints
from sok_compat.runtime import integrations
from sok_compat.runtime.horovod_helpers import COLLECTIVES_OF_DENSE, adapt_helpers, after_each_init
from sok_compat.runtime.refused_steps import count_refused_steps
from sok_compat.runtime.shared_gradients import watch_gradients
from sok_compat.runtime.strategies import accept_strategies
from sok_compat.tables.table import is_part_of_table, is_shared_table
from sok_compat.training.keras_optimizers import update_rows_in_use_in_keras
from sok_compat.training.moving_averages import refuse_moving_averages_of_tables
from sok_compat.training.stock_slots import make_slots_as_planes
from tests.support.undone import integrations_undone


def adapt_horovod():
    hvd = pytest.importorskip("horovod.tensorflow")
    adapt_helpers(hvd, is_part_of_table, "the test")


def watch_all_gradients():
    watch_gradients(is_shared_table)


def accept_all_strategies():
    accept_strategies(is_part_of_table)


def follow_each_init():
    pytest.importorskip("horovod.tensorflow")
    after_each_init(lambda: None)


def share_checkpoints_of_ranks():
    with mock.patch.object(sessions, "is_connected", lambda: True):
        sessions.share_checkpoints()


OF_OBJECTS = [
    "tf.train.Checkpoint.__init__",
    "tf.train.Checkpoint.save",
    "tf.train.Checkpoint.restore",
    "tf.train._update_checkpoint_state_internal",
    "tf.train._record_state",
    "tf.train._sweep",
    "tf.train.Checkpoint.restore (by path)",
    "tf.train.restore_or_initialize",
    "tf.keras.callbacks.BackupAndRestore",
]
OF_FILES = ["tf.keras.save_subset_weights_to_hdf5_group"]
BY_WHOM = {
    "tf.train.Saver": save_tables_in_checkpoints,
    **dict.fromkeys([*OF_OBJECTS, *OF_FILES], save_tables_in_checkpoints),
    "tf.train.Saver.save": share_checkpoints_of_ranks,
    "tf.train.Saver.restore": share_checkpoints_of_ranks,
    "tf.train.SessionManager": share_checkpoints_of_ranks,
    "tf.train.MonitoredSession": share_checkpoints_of_ranks,
    "tf.train.init_from_checkpoint": initialize_tables_from_checkpoints,
    "tf.train.warm_start": initialize_tables_from_checkpoints,
    "convert_variables_to_constants": refuse_to_freeze_tables,
    "tf.train.ExponentialMovingAverage": refuse_moving_averages_of_tables,
    "tf.GradientTape.gradient": watch_all_gradients,
    "tf.gradients": watch_all_gradients,
    "tf.clip_by_global_norm": watch_all_gradients,
    "tf.Session.run": count_refused_steps,
    "tf.distribute.StrategyExtended.update": accept_all_strategies,
    "tf.distribute.StrategyExtended.colocate_vars_with": accept_all_strategies,
    "tf.distribute.StrategyExtended.variable_created_in_scope": accept_all_strategies,
    "tf.keras.optimizers.Optimizer.build": update_rows_in_use_in_keras,
    "tf.keras.optimizers.Optimizer._update_step": update_rows_in_use_in_keras,
    "tf.keras.optimizers.Optimizer._apply_weight_decay": update_rows_in_use_in_keras,
    "tf.keras.optimizers.legacy.Optimizer.add_slot": make_slots_as_planes,
    "tf.keras.optimizers.Optimizer.add_variable_from_reference": make_slots_as_planes,
    "tf.compat.v1.train.Optimizer, slots": make_slots_as_planes,
    "hvd.init": follow_each_init,
    "hvd.DistributedOptimizer": adapt_horovod,
    "hvd.DistributedOptimizer.compute_gradients": adapt_horovod,
    "hvd.broadcast_": adapt_horovod,
    "hvd.broadcast_variables": adapt_horovod,
    "hvd._allreduce_cond": adapt_horovod,
    "hvd._grouped_allreduce_cond": adapt_horovod,
    "hvd.allreduce": adapt_horovod,
    "hvd.grouped_allreduce": adapt_horovod,
    **dict.fromkeys(COLLECTIVES_OF_DENSE, adapt_horovod),
}


@pytest.fixture(params=integrations.INTEGRATIONS)
def name(request):
    """Of an integration; none is in force."""
    if request.param.startswith("hvd."):
        pytest.importorskip("horovod.tensorflow")
    with integrations_undone():
        yield request.param


def functions(name):
    return [vars(owner)[attribute] for owner, attribute in integrations.INTEGRATIONS[name].places()]


def names():
    return [integration.name for integration in integrations.applied()]


def test_applied_once_and_undone_to_the_same_object(name):
    before = functions(name)
    assert names() == []
    BY_WHOM[name]()
    assert name in names()
    replaced = functions(name)
    assert len({id(each) for each in replaced}) == 1 and replaced[0] is not before[0]
    BY_WHOM[name]()
    assert all(now is then for now, then in zip(functions(name), replaced))
    for applied in names():
        integrations.undo(applied)
    assert all(now is then for now, then in zip(functions(name), before))
    assert names() == []
    integrations.undo(name)  # once more is nothing
    BY_WHOM[name]()
    assert name in names()


def other_parameters(function):
    def changed(self, another):
        del self, another

    changed.__qualname__ = function.__qualname__
    return changed


def other_name(function):
    @functools.wraps(function)
    def changed(*args, **kwargs):
        return function(*args, **kwargs)

    changed.__qualname__ = "somebody_elses"
    return changed


@pytest.mark.parametrize("change", [other_parameters, other_name, lambda function: None],
                         ids=["parameters", "name", "gone"])  # fmt: skip
def test_a_changed_target_is_refused(name, change, monkeypatch):
    changed = change(functions(name)[0])
    for owner, attribute in integrations.INTEGRATIONS[name].places():
        monkeypatch.setattr(owner, attribute, changed)
    message = f"changes {re.escape(name)} .*not what it was in .*expected"
    with pytest.raises(RuntimeError, match=message):
        integrations.apply(name, lambda function: pytest.fail("applied all the same"))
    assert names() == [] and all(each is changed for each in functions(name))


@pytest.mark.parametrize(
    "added, is_known", [([], True), (["optimize_identity_n"], True), (["another"], False)]
)
def test_parameters_of_newer_releases(added, is_known, monkeypatch):
    integration = integrations.INTEGRATIONS["tf.gradients"]
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
                  for name in [*integration.parameters, *added]]  # fmt: skip
    with integrations_undone():
        changed = other_parameters(functions(integration.name)[0])
        changed.__signature__ = inspect.Signature(parameters)
        for owner, attribute in integration.places():
            monkeypatch.setattr(owner, attribute, changed)
        if is_known:
            assert integration.check() is changed
        else:
            with pytest.raises(RuntimeError, match="src_graph, another"):
                integration.check()


def test_what_others_changed_since_is_not_undone(name, monkeypatch):
    integrations.apply(name, other_name)
    owner, attribute = integrations.INTEGRATIONS[name].places()[0]
    with monkeypatch.context() as patch:
        patch.setattr(owner, attribute, lambda: None)
        with pytest.raises(RuntimeError, match="changed since sok_compat changed it"):
            integrations.undo(name)
    assert name in names()


def test_init_applies_what_one_process_needs(graph):
    import sok_compat

    with integrations_undone():
        sok_compat.Init(global_batch_size=8)
        assert names() == [
            "tf.train.Saver",
            "tf.train.Saver.save",
            "tf.train.Saver.restore",
            *OF_OBJECTS,
            "tf.train.init_from_checkpoint",
            "tf.train.warm_start",
            "tf.train.ExponentialMovingAverage",
            "convert_variables_to_constants",
            "tf.keras.optimizers.Optimizer.build",
            "tf.keras.optimizers.Optimizer._update_step",
            "tf.keras.optimizers.Optimizer._apply_weight_decay",
            *OF_FILES,
        ]


def test_every_one_says_what_it_is_for():
    for name, integration in integrations.INTEGRATIONS.items():
        assert name == integration.name and integration.purpose and integration.tested_on
