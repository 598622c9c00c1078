# SPDX-License-Identifier: Apache-2.0
"""Graphs with tables in another process, which has the ops, but not the script."""

import json

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from tests.support.processes.subprocess_python import run_python
from tests.support.saves.saved_table import SavedTable
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1

LOADERS = {
    "meta graph": """
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            saver = tf.compat.v1.train.import_meta_graph(folder + "/model.meta")
            saver.restore(session, folder + "/model")
            rows = session.run("rows:0", {place: keys})
    """,
    "SavedModel in a session": """
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            tf.compat.v1.saved_model.load(session, ["serve"], folder + "/saved")
            rows = session.run("rows:0", {place: keys})
    """,
    "SavedModel in eager mode": """
        model = tf.saved_model.load(folder + "/saved")
        rows = model.signatures["serving_default"](keys=tf.constant(keys, tf.int64))["rows"].numpy()
    """,
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """(folder of a meta graph and a SavedModel, where keys go, keys, the rows that they have)."""
    folder = tmp_path_factory.mktemp("exported")
    with tf.Graph().as_default():
        sok_compat.Init(global_batch_size=8, seed=7)
        saved = SavedTable(folder)
        rows = tf.identity(saved.read, name="rows")
        with initialized_session() as session:
            session.run(saved.step, {saved.keys: [3, 1]})
            tf1.train.Saver().save(session, f"{folder}/model")
            tf1.saved_model.simple_save(
                session, f"{folder}/saved", {"keys": saved.keys}, {"rows": rows}
            )
            asked = [1, 9, 3]
            return folder, saved.keys.name, asked, session.run(rows, {saved.keys: asked})


IMPORTS = {
    "import sparse_operation_kit": list(LOADERS),
    "import sok_compat; sok_compat.Init": ["meta graph"],
}


@pytest.mark.parametrize(
    "imports, loader", [(imports, loader) for imports in IMPORTS for loader in IMPORTS[imports]]
)
def test_loads_without_the_script(exported, imports, loader):
    folder, place, keys, expected = exported
    code = f"{imports}\nimport json, tensorflow as tf\n"
    code += f"folder, place, keys = {str(folder)!r}, {place!r}, {keys}\n"
    code += "\n".join(line[8:] for line in LOADERS[loader].splitlines())
    rows = json.loads(run_python(code + "\nprint(json.dumps(rows.tolist()))"))
    np.testing.assert_array_equal(np.array(rows, np.float32), expected)


def test_a_frozen_graph_would_lose_the_keys(sok, tmp_path):
    rows = tf.identity(SavedTable(tmp_path).read, name="rows")
    dense = tf.identity(tf1.get_variable("dense", [2]), name="output")
    with initialized_session() as session:
        freeze = tf1.graph_util.convert_variables_to_constants
        with pytest.raises(tf.errors.OpError, match="cannot be frozen, .*saved_model"):
            freeze(session, rows.graph.as_graph_def(), ["rows"])
        frozen = freeze(session, dense.graph.as_graph_def(), ["output"])
    assert "VarHandleOp" not in {node.op for node in frozen.node}
