# SPDX-License-Identifier: Apache-2.0
"""Each change to TensorFlow and Horovod is made once, can be undone, and is not made blindly."""

import ast
import functools
import importlib.util
import inspect
import re
import sys
import types
from unittest import mock

import pytest

from sok_compat.checkpoint.loading.init_from_checkpoint import initialize_tables_from_checkpoints
from sok_compat.checkpoint.saver.tf_saver import save_tables_in_checkpoints
from sok_compat.checkpoint.sessions import restored_sessions as sessions
from sok_compat.deeprec.namespace import module_paths
from sok_compat.lookup.gradients.branches import make_no_zeros_of_tables
from sok_compat.lookup.gradients.recomputed import read_no_tables_to_recompute
from sok_compat.ranks.global_norm import clip_by_norm_over_ranks
from sok_compat.ranks.horovod.helpers import adapt_helpers
from sok_compat.ranks.sentences_first import put_sentences_first
from sok_compat.ranks.shared_gradients import watch_gradients
from sok_compat.run import bfloat16_products, horovod_stand_in, script_modules
from sok_compat.runtime import integrations
from sok_compat.runtime.strategies import accept_strategies
from sok_compat.runtime.tf_versions import has_keras_2, keras_3_of_scripts
from sok_compat.tables.known_tables import is_part_of_table, is_shared_table
from sok_compat.tables.rows.optimizer_updates import update_rows_of_gradients
from sok_compat.tables.rows.scatter_functions import scatter_by_methods
from sok_compat.tables.slots.keras_optimizers import update_rows_in_use_in_keras
from sok_compat.tables.slots.stock_slots import make_slots_as_planes
from tests.docs.documents import ROOT
from tests.support.processes.subprocess_python import run_python
from tests.support.saves.undone import integrations_undone


def adapt_horovod():
    hvd = pytest.importorskip("horovod.tensorflow")
    adapt_helpers(hvd, is_part_of_table)


def watch_all_gradients():
    watch_gradients(is_shared_table)


def accept_all_strategies():
    accept_strategies(is_part_of_table)


def share_checkpoints_of_ranks():
    with mock.patch.object(sessions, "is_connected", lambda: True):
        sessions.share_checkpoints()


OF_SAVERS = [
    "tf.train.Saver, its builder",
    "tf.train.Checkpoint, its saver",
    "tf.train.Checkpoint.restore, by path",
    "tf.train.CheckpointManager.save",
    "tf.keras.Model.save_weights, to .h5",
]
BY_WHOM = {
    **dict.fromkeys(OF_SAVERS, save_tables_in_checkpoints),
    "tf.train.Saver.save": share_checkpoints_of_ranks,
    "tf.train.Saver.restore": share_checkpoints_of_ranks,
    "tf.train.SessionManager": share_checkpoints_of_ranks,
    "tf.train.MonitoredSession": share_checkpoints_of_ranks,
    "tf.train.init_from_checkpoint": initialize_tables_from_checkpoints,
    "tf.train.warm_start": initialize_tables_from_checkpoints,
    "tf.GradientTape.gradient": watch_all_gradients,
    "tf.gradients": watch_all_gradients,
    "tf.cond, gradients": make_no_zeros_of_tables,
    "tf.cond of TensorFlow 1, gradients": make_no_zeros_of_tables,
    "tf.while_loop of TensorFlow 1, gradients": make_no_zeros_of_tables,
    "tf.recompute_grad, in graphs": read_no_tables_to_recompute,
    "tf.clip_by_global_norm": clip_by_norm_over_ranks,
    "errors of tf.compat.v1.Session.run": put_sentences_first,
    "tf.compat.v1.Session, its configuration": bfloat16_products.ask_in_sessions,
    "tf.distribute.StrategyExtended.update": accept_all_strategies,
    "tf.distribute.StrategyExtended.colocate_vars_with": accept_all_strategies,
    "tf.distribute.get_strategy().extended.colocate_vars_with": accept_all_strategies,
    "tf.keras.optimizers.Optimizer.build": update_rows_in_use_in_keras,
    "tf.keras.optimizers.LossScaleOptimizer.check_finite": update_rows_in_use_in_keras,
    "tf.compat.v1.train.Optimizer.apply_gradients": make_slots_as_planes,
    "tf.compat.v1.train.Optimizer.apply_gradients, outside of graphs": update_rows_of_gradients,
    "tf.scatter_update and its like, their ops": scatter_by_methods,
    "tf.scatter_nd_update and its like, their ops": scatter_by_methods,
}


def by_whom(name):
    return adapt_horovod if name.startswith("hvd.") else BY_WHOM[name]


@pytest.fixture(params=integrations.INTEGRATIONS)
def name(request):
    """Of an integration; none is in force."""
    if request.param.startswith("hvd."):
        pytest.importorskip("horovod.tensorflow")
    integrations.expect_tables()  # so that changes are made when they are asked for
    with integrations_undone():
        yield request.param


def functions(name):
    return [vars(owner)[attribute] for owner, attribute in integrations.INTEGRATIONS[name].places()]


def names():
    return [integration.name for integration in integrations.applied()]


def test_applied_once_and_undone_to_the_same_object(name):
    before = functions(name)
    assert names() == []
    by_whom(name)()
    assert name in names()
    replaced = functions(name)
    assert len({id(each) for each in replaced}) == 1 and replaced[0] is not before[0]
    by_whom(name)()
    assert all(now is then for now, then in zip(functions(name), replaced))
    for applied in names():
        integrations.undo(applied)
    assert all(now is then for now, then in zip(functions(name), before))
    assert names() == []
    integrations.undo(name)  # once more is nothing
    by_whom(name)()
    assert name in names()


def other_parameters(function):
    if inspect.ismodule(function):
        return types.ModuleType("without functions")

    def changed(self, another):
        del self, another

    changed.__qualname__ = function.__qualname__
    return changed


def other_name(function):
    if inspect.ismodule(function):
        return other_parameters(function)

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


OF_ONE_PROCESS = [
    *("tf.train.Saver, its builder", "tf.train.Saver.save", "tf.train.Saver.restore"),
    *OF_SAVERS[1:4],
    "tf.train.init_from_checkpoint",
    "tf.train.warm_start",
    "tf.keras.Model.save_weights, to .h5",
    "tf.distribute.StrategyExtended.update",
    "tf.distribute.StrategyExtended.colocate_vars_with",
    "tf.distribute.get_strategy().extended.colocate_vars_with",
    "tf.keras.optimizers.Optimizer.build",
    "tf.compat.v1.train.Optimizer.apply_gradients",
    "tf.compat.v1.train.Optimizer.apply_gradients, outside of graphs",
    "tf.scatter_update and its like, their ops",
    "tf.scatter_nd_update and its like, their ops",
]


def test_nothing_is_changed_before_the_first_table():
    printed = run_python(
        """
        import tensorflow as tf
        import sok_compat as sok
        from sok_compat.runtime import integrations

        def names():
            return [each.name for each in integrations.applied()]

        with tf.Graph().as_default():
            sok.Init(global_batch_size=8)
            tf.compat.v1.train.Saver([tf.compat.v1.get_variable("x", [])])
            assert names() == []
            sok.All2AllDenseEmbedding(8, 4, 1, 1)
            print(names())
        """
    )
    of_keras_2 = {
        "tf.keras.Model.save_weights, to .h5",
        "tf.keras.optimizers.Optimizer.build",
    }
    of_keras_3 = {"tf.keras.optimizers.LossScaleOptimizer.check_finite"}
    expected = {
        *(set(OF_ONE_PROCESS) - of_keras_2),
        *(of_keras_2 if has_keras_2 else ()),
        *(of_keras_3 if keras_3_of_scripts is not None else ()),
    }
    found = ast.literal_eval(printed.splitlines()[-1])
    assert len(found) == len(expected) and set(found) == expected


def test_a_refused_change_is_asked_for_again_by_the_next_table(monkeypatch):
    monkeypatch.setattr(integrations, "_waiting", [])
    refusals, made = [RuntimeError("of another release")], []

    def change():
        if refusals:
            raise refusals.pop()
        made.append("first")

    integrations.when_there_are_tables(change)
    integrations.when_there_are_tables(lambda: made.append("second"))
    with pytest.raises(RuntimeError, match="of another release"):
        integrations.expect_tables()
    assert not made
    integrations.expect_tables()
    assert made == ["first", "second"]


def test_each_says_what_it_is_for_and_where_it_is_tested():
    assert len(integrations.INTEGRATIONS) <= 36
    for name, integration in integrations.INTEGRATIONS.items():
        assert name == integration.name
    for change in (*integrations.INTEGRATIONS.values(), *integrations.CHANGES_OF_OBJECTS):
        assert change.purpose and change.tested_on
        assert (ROOT / change.tested_by).is_file(), change


@pytest.mark.parametrize("change, undo", [
    (script_modules.read_imports_as_tensorflow_1, script_modules.read_imports_as_written),
    (module_paths.add_finder, module_paths.remove_finder),
    (horovod_stand_in.stand_in_for_horovod, horovod_stand_in.find_as_installed),
])  # fmt: skip
def test_import_hooks_are_undone(monkeypatch, change, undo):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    undo()
    before = list(sys.meta_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)  # without Horovod
    change()
    assert len(sys.meta_path) == len(before) + 1
    undo()
    assert sys.meta_path == before


def test_a_class_whose_method_is_another_is_refused(monkeypatch):
    integration = integrations.INTEGRATIONS["tf.train.Saver, its builder"]
    with integrations_undone():
        ((owner, attribute),) = integration.places()
        with monkeypatch.context() as patch:  # over before the others are applied again
            patch.setattr(vars(owner)[attribute], "bulk_restore", lambda self, files: None)
            with pytest.raises(RuntimeError, match="expected BulkSaverBuilder.bulk_restore.*pref"):
                integration.check()
