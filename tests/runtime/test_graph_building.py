# SPDX-License-Identifier: Apache-2.0
"""TF1's ways to build and run a graph, around layers: scopes, devices, inputs, hooks, summaries."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from tests.support.cases.optimizer_cases import ALL_OPTIMIZERS, STOCK_OPTIMIZERS
from tests.support.saves.saved_table import assert_rows_equal
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
DIM = 3
BATCHES = np.array([[5, 1, 5], [9, 1, 2], [5, 5, 9]])


class Model:
    """One table trained on `keys` [n]; `loss` may be looked at, `step` trains."""

    def __init__(self, keys, optimizer=STOCK_OPTIMIZERS[1], **gradient_options):
        self.layer = sok_compat.All2AllDenseEmbedding(100, DIM, 1, 1, dynamic_input=True)
        self.table = self.layer.embedding_variable
        self.output = self.layer(keys)
        self.loss = tf.reduce_sum(tf.sin(self.output))
        gradients = tf1.gradients(self.loss, [self.table], **gradient_options)
        global_step = tf1.train.get_or_create_global_step()
        self.step = tf.group(
            optimizer.train_tables(gradients, [self.table]), global_step.assign_add(1)
        )
        with tf.control_dependencies(None):
            self.exported = self.table.export()

    def rows(self, session):
        keys, rows = session.run(self.exported)
        return dict(zip(keys.tolist(), rows))


@pytest.fixture
def expected_rows():
    """After a step on each of BATCHES, built and fed plainly."""
    return trained_by_feeding(lambda keys: Model(keys))


def trained_by_feeding(make_model):
    with tf.Graph().as_default():
        sok_compat.Init(global_batch_size=8, seed=7)
        keys = tf1.placeholder(tf.int64, [None])
        model = make_model(keys)
        with initialized_session() as session:
            for batch in BATCHES:
                session.run(model.step, {keys: batch})
            return model.rows(session)


def in_device_scope(keys):
    with tf.device("/job:localhost/replica:0/task:0/device:CPU:0"):
        return Model(keys)


def in_device_function(keys):
    with tf1.device(lambda op: "/device:CPU:0"):
        return Model(keys)


def with_control_dependencies(keys):
    with tf.control_dependencies([tf1.assert_non_negative(keys)]):
        return Model(keys)


def colocated(keys):
    return Model(keys, colocate_gradients_with_ops=True)


@pytest.mark.parametrize(
    "make_model",
    [in_device_scope, in_device_function, with_control_dependencies, colocated],
)
def test_surroundings_change_nothing(make_model, expected_rows):
    assert_rows_equal(trained_by_feeding(make_model), expected_rows)


@pytest.mark.parametrize("kind", ["one_shot", "initializable", "reinitialized"])
def test_dataset_iterators(sok, expected_rows, kind):
    data = tf.data.Dataset.from_tensor_slices(BATCHES)
    if kind == "one_shot":
        iterator = tf1.data.make_one_shot_iterator(data)
        init = tf.no_op()
    else:
        iterator = tf1.data.make_initializable_iterator(data)
        init = iterator.initializer
    model = Model(iterator.get_next())
    with initialized_session() as session:
        if kind == "reinitialized":
            session.run(init)
            session.run(model.loss)
            session.run(model.table.initializer)
            session.run(model.table.slots[0].initializer)
        session.run(init)
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                session.run(model.step)
        assert_rows_equal(model.rows(session), expected_rows)


def test_sparse_tensors_of_a_dataset(sok):
    """Examples parsed from protos, as input pipelines of TF1 give them."""
    examples = [
        tf.train.Example(
            features=tf.train.Features(
                feature={"ids": tf.train.Feature(int64_list=tf.train.Int64List(value=ids))}
            )
        ).SerializeToString()
        for ids in ([3, 4], [], [3])
    ]
    data = tf.data.Dataset.from_tensor_slices(examples).batch(3)
    parsed = data.map(lambda x: tf.io.parse_example(x, {"ids": tf.io.VarLenFeature(tf.int64)}))
    ids = tf1.data.make_one_shot_iterator(parsed).get_next()["ids"]
    layer = sok.DistributedEmbedding("sum", 100, DIM, 1, 2, embedding_initializer="ones")
    with initialized_session() as session:
        output = session.run(layer(ids))
    np.testing.assert_array_equal(output[:, 0], np.array([[2.0], [0.0], [1.0]]) * np.ones(DIM))


def test_names_in_scopes(sok):
    """Variable scopes give tables a name scope; a layer is reused by calling it again."""
    with tf1.variable_scope("tower"):
        first = sok.All2AllDenseEmbedding(10, DIM, 1, 1, dynamic_input=True)
        tf1.get_variable("dense", [1])
    with tf1.variable_scope("tower", reuse=True):
        tf1.get_variable("dense", [1])
        again = first(tf.constant([1, 2], tf.int64))
    with tf1.variable_scope("tower", reuse=tf1.AUTO_REUSE):
        second = sok.All2AllDenseEmbedding(10, DIM, 1, 1, dynamic_input=True)
    assert [layer.embedding_variable.m_var_name for layer in (first, second)] == [
        "tower/EmbeddingVariable",
        "tower_2/EmbeddingVariable",
    ]
    with initialized_session() as session:
        assert session.run(again).shape == (2, DIM)
        assert session.run(first.embedding_variable.num_keys()) == 2
        assert session.run(second.embedding_variable.num_keys()) == 0


@pytest.mark.parametrize("optimizer", ALL_OPTIMIZERS[:1] + STOCK_OPTIMIZERS[1:2], ids=str)
def test_monitored_session_with_hooks(sok, tmp_path, caplog, optimizer):
    """Everything that a TF1 training loop hangs into its session, with tables in the graph."""
    data = tf.data.Dataset.from_tensor_slices(BATCHES).repeat()
    model = Model(tf1.data.make_one_shot_iterator(data).get_next(), optimizer)
    tf1.summary.scalar("loss", model.loss)
    tf1.summary.histogram("rows", model.output)
    tf1.summary.scalar("keys", model.table.num_keys())
    train = tf1.train
    scaffold = train.Scaffold(summary_op=tf1.summary.merge_all(), saver=train.Saver(max_to_keep=2))
    hooks = [
        train.StopAtStepHook(last_step=9),
        train.NanTensorHook(model.loss),
        train.LoggingTensorHook({"loss": model.loss}, every_n_iter=3),
        train.StepCounterHook(every_n_steps=3, output_dir=str(tmp_path)),
        train.CheckpointSaverHook(str(tmp_path), save_steps=3, scaffold=scaffold),
        train.SummarySaverHook(3, output_dir=str(tmp_path), scaffold=scaffold),
        train.FinalOpsHook(model.exported),
    ]
    tf1.logging.set_verbosity(tf1.logging.INFO)
    with train.MonitoredSession(train.ChiefSessionCreator(scaffold), hooks) as session:
        while not session.should_stop():
            session.run(model.step)
    assert sorted(hooks[-1].final_ops_values[0]) == [1, 2, 5, 9]
    assert caplog.text.count("loss = ") == 3
    paths = tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths
    assert [path.rsplit("-", 1)[1] for path in paths] == ["6", "9"]
    events = [
        value.tag
        for path in tf.io.gfile.glob(f"{tmp_path}/events*")
        for event in train.summary_iterator(path)
        for value in event.summary.value
    ]
    assert {"loss", "rows", "keys", "global_step/sec"} <= set(events)


def test_nan_loss_stops_the_session(sok):
    keys = tf1.placeholder(tf.int64, [None])
    model = Model(keys)
    loss = tf.where(tf.equal(tf.size(keys), 1), np.float32(np.nan), model.loss)
    hooks = [tf1.train.NanTensorHook(loss)]
    with (
        pytest.raises(tf1.train.NanLossDuringTrainingError),
        tf1.train.MonitoredSession(hooks=hooks) as session,
    ):
        session.run(model.step, {keys: [1, 2]})
        session.run(model.step, {keys: [1]})


def test_several_graphs_and_sessions_with_savers(tmp_path):
    """A checkpoint of one graph is read in another while both are open."""
    graphs = [tf.Graph() for _ in range(2)]
    parts = []
    for graph in graphs:
        with graph.as_default():
            sok_compat.Init(global_batch_size=8, seed=7)
            keys = tf1.placeholder(tf.int64, [None])
            model = Model(keys)
            saver = tf1.train.Saver()
            init = tf1.global_variables_initializer()
            graph.finalize()
            parts.append((keys, model, saver, init))
    with (
        tf1.Session(graph=graphs[0]) as first,
        tf1.Session(graph=graphs[1]) as second,
        tf1.Session(graph=graphs[1]) as third,
    ):
        keys, model, saver, init = parts[0]
        first.run(init)
        first.run(model.step, {keys: BATCHES[0]})
        path = saver.save(first, str(tmp_path / "model"))
        rows = model.rows(first)
        keys, model, saver, init = parts[1]
        third.run(init)
        saver.restore(second, path)
        assert_rows_equal(model.rows(second), rows)
        assert model.rows(third) == {}
