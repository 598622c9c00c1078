# SPDX-License-Identifier: Apache-2.0
"""`export_saved_model`: what other processes read of tables, with our ops and with TensorFlow's."""

import json

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from tests.support.processes.subprocess_python import run_python
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1

KEYS = [[[1], [2]], [[3], [-4]]]
UNKNOWN = [[[1], [99]], [[-98], [-4]]]
BAGS = tf1.SparseTensorValue([[0, 0], [0, 1], [2, 0], [3, 1]], [5, 6, 7, -8], [4, 3])
EXPORTED = {
    "stock": {"stock_ops": True, "missing_keys": "zeros"},
    "first values": {},
    "zeros": {"missing_keys": "zeros"},
}


def model(training):
    """({name: input}, {name: output})"""
    sok_compat.Init(global_batch_size=8, seed=3)
    keys = tf1.placeholder(tf.int64, [None, 2, 1], name="keys")
    bags = tf1.sparse_placeholder(tf.int64, [None, 3], name="bags")
    rows = sok_compat.All2AllDenseEmbedding(100, 4, slot_num=2, nnz_per_slot=1)
    pooled = sok_compat.DistributedEmbedding("mean", 100, 4, slot_num=2, max_nnz=3)
    outputs = {"rows": rows(keys, training=training), "pooled": pooled(bags, training=training)}
    both = [tf.reshape(output, [-1, 8]) for output in outputs.values()]
    outputs["scores"] = tf.concat(both, 1) @ tf1.get_variable("weights", [16, 1])
    return {"keys": keys, "bags": bags}, outputs


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(folder with a checkpoint, outputs for KEYS, for UNKNOWN)."""
    folder = tmp_path_factory.mktemp("trained")
    with tf.Graph().as_default():
        inputs, outputs = model(training=True)
        loss = tf.reduce_sum(outputs["scores"] ** 2)
        variables, others = sok_compat.split_embedding_variable_from_others(
            tf1.trainable_variables()
        )
        with sok_compat.OptimizerScope(variables):
            step = tf1.train.AdagradOptimizer(0.1).minimize(loss, var_list=variables + others)
        with initialized_session() as session:
            for _ in range(3):
                session.run(step, {inputs["keys"]: KEYS, inputs["bags"]: BAGS})
            tf1.train.Saver().save(session, f"{folder}/model", write_meta_graph=False)
            known, unknown = (
                session.run(outputs, {inputs["keys"]: keys, inputs["bags"]: BAGS})
                for keys in (KEYS, UNKNOWN)
            )
    return folder, known, unknown


def build():
    return model(training=False)


SERVE = """
import json, sys
import tensorflow as tf

def outputs(name, keys):
    serve = tf.saved_model.load(f"{folder}/{name}").signatures["serving_default"]
    found = serve(
        keys=tf.constant(keys, tf.int64),
        bags_indices=tf.constant(bags[0], tf.int64),
        bags_values=tf.constant(bags[1], tf.int64),
        bags_dense_shape=tf.constant(bags[2], tf.int64),
    )
    return {name: value.numpy().tolist() for name, value in found.items()}

served = {}
for name in names:
    if name != "stock":
        import sparse_operation_kit
    served[name] = [outputs(name, keys) for keys in asked]
    assert ("sok_compat" in sys.modules) == (name != "stock")
print(json.dumps(served))
"""


@pytest.fixture(scope="module")
def served(trained):
    """{name of EXPORTED: [outputs for KEYS, for UNKNOWN]}, of another process."""
    folder, _, _ = trained
    for name, options in EXPORTED.items():
        sok_compat.export_saved_model(folder / name, build, folder, **options)
    given = {
        "folder": str(folder),
        "names": list(EXPORTED),
        "asked": [KEYS, UNKNOWN],
        "bags": [list(part) for part in BAGS],
    }
    lines = [f"{name} = {value!r}" for name, value in given.items()]
    return json.loads(run_python("\n".join([*lines, SERVE]), is_fresh=True))


@pytest.mark.parametrize("name", EXPORTED)
def test_rows_are_those_that_were_trained(trained, served, name):
    _, known, _ = trained
    found, _ = served[name]
    np.testing.assert_array_equal(np.float32(found["rows"]), known["rows"])
    for output in ("pooled", "scores"):
        np.testing.assert_allclose(np.float32(found[output]), known[output], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", EXPORTED)
def test_missing_keys(trained, served, name):
    _, _, unknown = trained
    expected = unknown["rows"].copy()
    assert np.all(expected[[0, 1], [1, 0]] != 0)  # first values
    if name != "first values":
        expected[[0, 1], [1, 0]] = 0
    _, found = served[name]
    np.testing.assert_array_equal(np.float32(found["rows"]), expected)


def test_first_values_that_repeat_are_served_by_stock_ops(tmp_path):
    found = json.loads(
        run_python(
            f"folder = {str(tmp_path)!r}"
            + """
import json
import sok_compat
import sok_compat.deeprec as tf

def build():
    ids = tf.placeholder(tf.int64, [None], name="ids")
    drawn = tf.get_embedding_variable("drawn", 3, ev_option=tf.EmbeddingVariableOption(
        init_option=tf.InitializerOption(default_value_dim=5)))
    made = tf.get_embedding_variable("made", 3, initializer=lambda shape, dtype: tf.reshape(
        tf.range(15, dtype=dtype), shape), ev_option=tf.EmbeddingVariableOption(
        init_option=tf.InitializerOption(default_value_dim=5)))
    filtered = tf.get_embedding_variable("filtered", 3, ev_option=tf.EmbeddingVariableOption(
        filter_option=tf.CounterFilter(2)))
    tables = [drawn, made, filtered]
    bags = tf.RaggedTensor.from_row_lengths(ids, tf.ones_like(ids)).to_sparse()
    rows = [tf.nn.embedding_lookup(table, ids) for table in tables]
    rows += tf.nn.group_embedding_lookup_sparse(tables, [bags] * 3, ["sum"] * 3)
    return {"ids": ids}, {"rows": tf.concat(rows, 1)}

def values(session, inputs, outputs):
    return session.run(outputs["rows"], {inputs["ids"]: [7, -3, 1000, 4]}).tolist()

inputs, outputs = build()
step = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(outputs["rows"] ** 2))
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(3):
        session.run(step, {inputs["ids"]: [7, -3]})
    tf.train.Saver().save(session, f"{folder}/model")
    trained = values(session, inputs, outputs)
saved = sok_compat.export_saved_model(f"{folder}/served", build, folder, stock_ops=True)
with tf.Graph().as_default(), tf.Session() as session:
    signature = tf.saved_model.load(session, ["serve"], saved).signature_def["serving_default"]
    names = {name: info.name for name, info in signature.inputs.items()}
    outputs = {name: info.name for name, info in signature.outputs.items()}
    ops = {op.type for op in session.graph.get_operations() if op.type.startswith("Sok")}
    print(json.dumps([trained, values(session, names, outputs), sorted(ops)]))
"""
        )
    )
    trained, served, ours = found
    assert not ours
    np.testing.assert_array_equal(np.float32(served), np.float32(trained))


def test_a_folder_that_is_there_stays(trained):
    folder, _, _ = trained
    (folder / "mine").mkdir()
    with pytest.raises(FileExistsError, match="mine already exists: export into a new folder"):
        sok_compat.export_saved_model(folder / "mine", build, folder)
    assert not list((folder / "mine").iterdir())


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"missing_keys": "none"}, "missing_keys must be 'first_values' or 'zeros', got 'none'"),
        ({"checkpoint": "nowhere"}, "no checkpoint in .*nowhere"),
        ({"stock_ops": True}, "cannot get its first values, uniform .*missing_keys='zeros'"),
        (
            {"stock_ops": True, "missing_keys": "zeros", "build": lambda: model(training=True)},
            "inserts keys, which a served graph cannot do: build it with training=False",
        ),
        ({"build": lambda: 3}, "build must return .inputs, outputs.*got 3"),
    ],
)
def test_what_cannot_be_exported(trained, tmp_path, arguments, words):
    folder, _, _ = trained
    if arguments.get("checkpoint"):
        arguments = {**arguments, "checkpoint": tmp_path / "nowhere"}
        (tmp_path / "nowhere").mkdir()
    arguments = {"build": build, "checkpoint": folder, **arguments}
    with pytest.raises(ValueError, match=words):
        sok_compat.export_saved_model(tmp_path / "exported", **arguments)
    assert not list(tmp_path.glob("exported*"))


def test_ops_that_are_not_lookups_are_named(trained, tmp_path):
    folder, _, _ = trained

    def with_size():
        inputs, outputs = model(training=False)
        (table,) = [each for each in tf1.global_variables() if "EmbeddingVariable:" in each.name]
        return inputs, {**outputs, "size": table.num_keys()}

    with pytest.raises(ValueError, match="no ops of sok_compat other than lookups, .*SokTableS"):
        sok_compat.export_saved_model(
            tmp_path / "exported", with_size, folder, stock_ops=True, missing_keys="zeros"
        )
