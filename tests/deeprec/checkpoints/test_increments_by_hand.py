# SPDX-License-Identifier: Apache-2.0
"""tf.train.Saver(incremental_save_restore=True), and the module incremental_saver."""

import gc
import os
import weakref

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from sok_compat.checkpoint.saver.incremental_saver import IncrementalSaver as SaverOfPackage
from sok_compat.deeprec.collective.savers import Saver
from sok_compat.deeprec.lookups.stock_lookups import embedding_lookup
from sok_compat.deeprec.optimizer_rules.train_optimizers import AdagradOptimizer
from sok_compat.deeprec.python.training.incremental_saver import (
    IncrementalSaver,
    _get_incremental_saver,
)
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from tests.support.processes.subprocess_python import run_python


def model():
    """(ids to feed, loss, step, keys and rows)"""
    variable = get_embedding_variable("v", 3, initializer=tf.ones_initializer())
    bias = tf.get_variable("bias", [3])
    ids = tf.placeholder(tf.int64, [None])
    loss = tf.reduce_sum((embedding_lookup(variable, ids) + bias) ** 2)
    step = AdagradOptimizer(0.1).minimize(loss)
    return ids, loss, step, [*variable.export()[:2], bias]


def sorted_rows(found):
    keys, rows, bias = found
    order = np.argsort(keys)
    return keys[order], rows[order], bias


def of_saver_def(saver):
    """Increments of a saver, as scripts of DeepRec make them by hand."""
    increments = IncrementalSaver(sharded=True, saver_def=saver.saver_def, defer_build=True)
    increments.build(saver._builder.filename_tensor)
    return increments


@pytest.mark.parametrize("in_subfolder", [True, False])
def test_training_goes_on_from_increments(graph, tmp_path, in_subfolder):
    ids, loss, step, state = model()
    saver = Saver(max_to_keep=3, incremental_save_restore=True)
    assert isinstance(saver, Saver) and isinstance(saver, SaverOfPackage)
    increments = of_saver_def(saver) if in_subfolder else _get_incremental_saver(True, saver)
    below = ".incremental_checkpoint" if in_subfolder else ""
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step, {ids: [1, 2, 3]})
        whole = saver.save(session, str(tmp_path / "model"), global_step=1)
        paths = []
        for number, keys in enumerate(([2, 7], [9]), 2):
            session.run(step, {ids: keys})
            given = os.path.join(tmp_path, below, "incr-model")
            paths.append(increments.incremental_save(session, given, global_step=number))
        before = sorted_rows(session.run(state))
    assert paths == [str(tmp_path / f"incr-model-{number}") for number in (2, 3)]
    assert os.path.getsize(f"{paths[0]}.index") and tf.train.latest_checkpoint(tmp_path) == paths[1]
    with tf.Graph().as_default():
        ids, loss, step, state = model()
        saver = Saver(incremental_save_restore=True)
        increments = _get_incremental_saver(True, saver)
        for restore in (
            lambda session: increments.incremental_restore(session, whole, paths[1]),
            lambda session: increments.recover_incr_checkpoints(session, str(tmp_path)),
        ):
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                restore(session)
                for ours, theirs in zip(sorted_rows(session.run(state)), before):
                    np.testing.assert_array_equal(ours, theirs)


def test_a_saver_in_a_collection_goes_with_its_graph():
    with tf.Graph().as_default() as graph:
        model()
        tf.add_to_collection(tf.GraphKeys.SAVERS, Saver(incremental_save_restore=True))
    gone = weakref.ref(graph)
    del graph
    gc.collect()
    assert gone() is None


def test_other_savers(graph):
    tf.get_variable("x", [])
    saver = Saver(max_to_keep=1, incremental_save_restore=False)
    assert saver.saver_def.max_to_keep == 1 and not isinstance(saver, SaverOfPackage)
    assert _get_incremental_saver(False, saver) is None
    with pytest.raises(ValueError, match="increments need .*restore=True.*got Saver without it"):
        _get_incremental_saver(True, saver)
    with pytest.raises(ValueError, match="increments need .*got NoneType"):
        IncrementalSaver(saver_def=saver.saver_def)
    others = [Saver(incremental_save_restore=True) for _ in range(2)]
    with pytest.raises(ValueError, match="those of the saver with the tensor save_1/Const:0, got"):
        of_saver_def(others[0]).build(others[1]._builder.filename_tensor)


def test_savers_that_have_no_increments(graph, tmp_path):
    """A subclass is refused; without tables, an increment is a whole checkpoint."""

    class OfScript(Saver):
        pass

    variable = tf.get_variable("x", initializer=1.0)
    with pytest.raises(TypeError, match="OfScript.*: derive it from .*checkpoint.IncrementalSaver"):
        OfScript([variable], incremental_save_restore=True)
    assert type(OfScript([variable])) is OfScript
    saver = Saver([variable], False, False, 2, incremental_save_restore=True)
    assert saver.saver_def.max_to_keep == 2
    with tf.Session() as session:
        session.run(variable.initializer)
        given = f"{tmp_path}/.incremental_checkpoint/incr"
        path = _get_incremental_saver(True, saver).incremental_save(session, given, 1)
    assert path == f"{tmp_path}/incr-1" == tf.train.latest_checkpoint(tmp_path)
    assert tf.train.load_variable(path, "x") == 1.0


def test_increments_are_of_one_whole_checkpoint_and_go_with_it(graph, tmp_path):
    ids, _, step, state = model()
    saver = Saver(max_to_keep=1, incremental_save_restore=True)
    increments, path = _get_incremental_saver(True, saver), str(tmp_path / "model")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step, {ids: [1, 2]})
        whole = saver.save(session, path, 0)
        session.run(step, {ids: [2, 3]})
        first = increments.incremental_save(session, path, 1)
        aside = increments.incremental_save(session, path, 2, write_state=False)
        assert increments.last_incr_checkpoints == [first]
        assert tf.train.latest_checkpoint(tmp_path) == first
        with pytest.raises(ValueError, match="model-2 is an increment of .*model-0, not of other"):
            increments.incremental_restore(session, "other", aside)
        increments.incremental_restore(session, whole, aside)
        saver.save(session, path, 3)
        assert increments.last_incr_checkpoints == [] and not tf.train.checkpoint_exists(first)
        last = increments.incremental_save(session, path, 4)
        expected = sorted_rows(session.run(state))
        session.run(step, {ids: [2]})
        again = _get_incremental_saver(True, Saver(max_to_keep=1, incremental_save_restore=True))
        again.recover_incr_checkpoints(session, str(tmp_path))
        for ours, theirs in zip(sorted_rows(session.run(state)), expected):
            np.testing.assert_array_equal(ours, theirs)
        assert again.last_incr_checkpoints == [last]
        again.recover_incr_checkpoints(session, str(tmp_path / "empty"))


@pytest.mark.thorough
def test_where_scripts_find_the_names(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import tensorflow as tf\n"
        "from tensorflow.python.framework import ops\n"
        "from tensorflow.python.framework.ops import *\n"
        "from tensorflow.python.training import incremental_saver, saver\n"
        "v = tf.get_embedding_variable('v', 4)\n"
        "loss = tf.reduce_sum(tf.nn.embedding_lookup(v, [1]))\n"
        "tf.train.AdagradOptimizer(0.1).minimize(loss)\n"
        "names = 'EV_INIT_VAR_OPS', 'EV_INIT_SLOT_OPS', 'EMBEDDING_VARIABLES', 'GLOBAL_STEP'\n"
        "sizes = [len(ops.get_collection(getattr(ops.GraphKeys, name))) for name in names]\n"
        "assert sizes == [1, 1, 1, 0], sizes\n"
        "assert GraphKeys is tf.GraphKeys is ops.GraphKeys and RegisterGradient\n"
        "full = tf.train.Saver(incremental_save_restore=True)\n"
        "assert incremental_saver._get_incremental_saver(True, full).incremental_save\n"
        "assert saver.Saver and ops.get_default_graph() is tf.get_default_graph()\n"
    )
    run_python(f"""
        import sys
        from sok_compat.run.program import main
        sys.argv[0] = "run"
        main([{str(script)!r}])
    """)
