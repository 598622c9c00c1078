# SPDX-License-Identifier: Apache-2.0
"""Tables with rows of bfloat16 and float16, beside NumPy, and tables and variables of float32."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import sok_compat as sok
from sok_compat import checkpoint
from sok_compat.deeprec.optimizer_rules import stock_optimizers
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from sok_compat.tables import Table
from sok_compat.tables.rows.row_writes import write_rows
from tests.support.lookups import lookup

tf1 = tf.compat.v1
KEYS = np.array([5, -1, 2**40, 7])
DIM = 6
TARGETS = np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2)
OPTIMIZERS = {
    "descent": lambda: tf1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf1.train.MomentumOptimizer(0.05, 0.9),
    "adagrad": lambda: tf1.train.AdagradOptimizer(0.5),
    "rmsprop": lambda: tf1.train.RMSPropOptimizer(0.1),
    "ftrl": lambda: tf1.train.FtrlOptimizer(0.5),
    "adam": lambda: tf1.train.AdamOptimizer(0.1),
    "row-wise adagrad": lambda: sok.optimizers.RowWiseAdagrad(0.5),
}


@pytest.fixture(params=[tf.bfloat16, tf.float16], ids=lambda dtype: dtype.name)
def dtype(request):
    return request.param


def nearest(values, dtype):
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float32).astype(dtype.as_numpy_dtype).astype(np.float32)


def all_rows(run, table):
    keys, rows = run(table.export)
    return rows[np.argsort(keys)]


@pytest.mark.parametrize("initializer", ["random_normal", None])
@pytest.mark.parametrize("capacity", [None, 8])
def test_first_values_are_rounded(run, dtype, initializer, capacity):
    table = Table(capacity, DIM, initializer, row_dtype=dtype, name="table")
    assert (table.dtype, table.row_dtype) == (tf.float32, dtype)
    before = run(lambda keys: lookup(table, keys, False), KEYS)
    after = run(lambda keys: lookup(table, keys, True), KEYS)
    assert after.dtype == np.float32 and np.std(after) > 0
    np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(after, nearest(after, dtype))
    np.testing.assert_array_equal(run(table.export)[1], after)


def test_whole_initial_value(run, dtype):
    values = np.linspace(-1, 1, 4 * DIM, dtype=np.float32).reshape(4, DIM)
    table = Table(4, DIM, tf.constant_initializer(values), row_dtype=dtype, use_hash_index=False)
    np.testing.assert_array_equal(run(table.value), nearest(values, dtype))
    values *= 3
    run(lambda: table.assign(tf.constant(values)))
    np.testing.assert_array_equal(run(table.value), nearest(values, dtype))


def test_written_rows_are_the_nearest(run, dtype):
    table = Table(None, 3, row_dtype=dtype)
    rows = np.array([[1.001, -3e38, 1e-30], [np.inf, -np.inf, 7.0]], np.float32)
    run(lambda: write_rows(table, tf.constant([3, 4], tf.int64), rows))
    expected = nearest(rows, dtype)
    if dtype == tf.float16:
        expected[0, 1] = -65504
    np.testing.assert_array_equal(all_rows(run, table), expected)


def test_nan_stays(run, dtype):
    table = Table(None, 2, row_dtype=dtype)
    run(lambda: write_rows(table, tf.constant([3], tf.int64), [[np.nan, 1.0]]))
    assert np.isnan(all_rows(run, table)[0, 0])


OVERFLOWS = """
import numpy as np
import tensorflow as tf
from sok_compat import checkpoint
from sok_compat.runtime.op_library import ops
from sok_compat.tables import Table
from sok_compat.tables.rows.row_writes import write_rows

kept = []

def table(name, dtype="float16", capacity=None, *arguments, **options):
    kept.append(Table(capacity, 2, *arguments, row_dtype=dtype, name=name, **options))
    return kept[-1]

rows = tf.constant([[1e6, 1.0], [-7e4, np.inf]])
keys = tf.constant([3, 4], tf.int64)
write_rows(table("written"), keys, rows)
ops.sok_apply_changes(table("followed").table_handle, keys, rows, tf.constant([], tf.int64))
ones = tf.constant_initializer(np.full([2, 2], 1e5))
table("first", "float16", 2, ones, use_hash_index=False)
table("assigned", "float16", 2, use_hash_index=False).assign(tf.fill([2, 2], 1e5))
checkpoint.save_tables_in_checkpoints()
saved = table("saved", "float32")
write_rows(saved, keys, rows)
path = tf.train.Checkpoint(table=saved).save(folder + "/model")
tf.train.Checkpoint(table=table("restored")).restore(path)
tf.train.Checkpoint(table=table("wider", "bfloat16")).restore(path)
"""


def test_what_float16_has_not_is_counted(tmp_path):
    code = f"folder = {str(tmp_path)!r}\n{OVERFLOWS}"
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = re.findall(r"table '(\w+)': (\d+) numbers beyond 65,504, the largest fl", done.stderr)
    expected = {"written": 2, "followed": 2, "first": 4, "assigned": 4, "restored": 2}
    assert {name: int(count) for name, count in found} == expected and len(found) == len(expected)


@pytest.mark.parametrize("arguments", [{"row_dtype": "float64"}, {"row_dtype": 1.5}])
def test_other_dtypes_are_refused(arguments):
    with pytest.raises(
        ValueError, match=r"row_dtype must be one of float32, bfloat16, float16, go"
    ):
        Table(8, 2, **arguments)


def test_other_roundings_are_refused():
    with pytest.raises(ValueError, match="rounding must be one of stochastic, nearest, got 'up'"):
        Table(8, 2, rounding="up")


class Trained:
    """A table in a graph, trained by one of OPTIMIZERS; its loss is |rows - 1|^2."""

    def __init__(self, optimizer, rate=1.0, saves=False, initializer="random_normal", **arguments):
        sok.Init(global_batch_size=8, seed=1)
        self.table = Table(16, DIM, initializer, name="table", **arguments)
        rows = lookup(self.table, tf.constant(KEYS), True)
        self.loss = rate * tf.reduce_sum((rows - 1) ** 2)
        with sok.OptimizerScope([self.table]):
            self.step = OPTIMIZERS[optimizer]().minimize(self.loss, var_list=[self.table])
        self.saver = tf1.train.Saver() if saves else None
        self.initializer = tf1.global_variables_initializer()
        self.export = self.table.export()

    def rows(self, session):
        keys, rows = session.run(self.export)
        return rows[np.argsort(keys)]


def train(num_steps, *args, threads=None, **kwargs):
    config = tf1.ConfigProto(intra_op_parallelism_threads=threads or 0)
    with tf.Graph().as_default(), tf1.Session(config=config) as session:
        trained = Trained(*args, **kwargs)
        session.run(trained.initializer)
        losses = [session.run([trained.loss, trained.step])[0] for _ in range(num_steps)]
        return losses, trained.rows(session)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers_in_a_scope(dtype, optimizer):
    losses, rows = train(6, optimizer, row_dtype=dtype)
    expected, _ = train(6, optimizer)
    np.testing.assert_allclose(losses, expected, rtol=0.03, atol=0.01)
    np.testing.assert_array_equal(rows, nearest(rows, dtype))
    assert losses[-1] < losses[0] / 2


def test_a_scope_merges_no_gradient_twice(dtype):
    """Stock optimizers add up gradients of repeated rows, of which a lookup's has none."""
    with tf.Graph().as_default() as graph:
        Trained("adagrad", row_dtype=dtype)
        updates = [op for op in graph.get_operations() if op.type == "SokApplyRule"]
        assert [op.get_attr("row_ids_are_distinct") for op in updates] == [[True]]


def test_small_updates_add_up(dtype):
    """Each is a fraction of a step between numbers: rounded to nearest, all would be lost."""
    steps, rate = 400, 1e-5
    wide = train(steps, "descent", rate)[1]
    narrow = train(steps, "descent", rate, row_dtype=dtype)[1]
    unmoved = train(steps, "descent", rate, row_dtype=dtype, rounding="nearest")[1]
    first = train(1, "descent", 0.0, row_dtype=dtype)[1]
    moved = np.mean(wide - first)
    assert 0.5 * moved < np.mean(narrow - first) < 1.5 * moved
    if dtype == tf.bfloat16:
        assert np.mean(np.abs(unmoved - first)) < 0.1 * moved


@pytest.mark.parametrize("optimizer", ["descent", "adam"])
def test_threads_do_not_matter(dtype, optimizer):
    one, four = (train(5, optimizer, row_dtype=dtype, threads=n)[1] for n in (1, 4))
    np.testing.assert_array_equal(one, four)


@pytest.mark.parametrize("optimizer", ["adagrad", "adam"])
def test_a_restored_table_goes_on_with_the_same_bits(dtype, tmp_path, optimizer):
    checkpoint.save_tables_in_checkpoints()
    path = str(tmp_path / "model")
    with tf.Graph().as_default(), tf1.Session() as session:
        trained = Trained(optimizer, row_dtype=dtype, saves=True)
        session.run(trained.initializer)
        for _ in range(3):
            session.run(trained.step)
        trained.saver.save(session, path)
        for _ in range(3):
            session.run(trained.step)
        expected = trained.rows(session)
    saved = dict(tf.train.list_variables(path))
    assert tf.train.load_checkpoint(path).get_variable_to_dtype_map()["table/rows"] == dtype
    assert saved["table/seed"] == [2]
    with tf.Graph().as_default(), tf1.Session() as session:
        trained = Trained(optimizer, row_dtype=dtype, saves=True)
        trained.saver.restore(session, path)
        for _ in range(3):
            session.run(trained.step)
        np.testing.assert_array_equal(trained.rows(session), expected)


def test_a_checkpoint_of_float32_starts_the_count_of_updates_anew(dtype, tmp_path):
    """It has none: what was trained before plays no part."""
    checkpoint.save_tables_in_checkpoints()
    path, found = str(tmp_path / "model"), []
    with tf.Graph().as_default(), tf1.Session() as session:
        trained = Trained("descent", initializer="zeros", saves=True)
        session.run(trained.initializer)
        trained.saver.save(session, path)
    assert "table/seed" not in dict(tf.train.list_variables(path))
    for num_steps_before in (0, 3):
        with tf.Graph().as_default(), tf1.Session() as session:
            trained = Trained("descent", 0.3, initializer="zeros", row_dtype=dtype, saves=True)
            session.run(trained.initializer)
            for _ in range(num_steps_before):
                session.run(trained.step)
            trained.saver.restore(session, path)
            for _ in range(3):
                session.run(trained.step)
            found.append(trained.rows(session))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("saved", [tf.float32, tf.bfloat16, tf.float16], ids=lambda x: x.name)
@pytest.mark.parametrize("restored", [tf.float32, tf.bfloat16, tf.float16], ids=lambda x: x.name)
def test_restore_into_another_dtype(run, tmp_path, saved, restored):
    checkpoint.save_tables_in_checkpoints()
    path, rows = str(tmp_path / "model"), {}
    for step, row_dtype in enumerate((saved, restored)):
        with tf.Graph().as_default(), tf1.Session() as session:
            trained = Trained("adagrad", row_dtype=row_dtype, saves=True)
            if step == 0:
                session.run([trained.initializer])
                session.run(trained.step)
                trained.saver.save(session, path)
            else:
                trained.saver.restore(session, path)
            rows[step] = trained.rows(session)
    np.testing.assert_array_equal(rows[1], nearest(rows[0], restored))


def test_wide_rows_are_restored_in_several_blocks(tmp_path, dtype):
    """Rows of two bytes take half of the memory that blocks are measured by."""
    checkpoint.save_tables_in_checkpoints()
    rows = np.random.default_rng(1).integers(-99, 99, [1100, 8192]).astype(np.float32)
    saved, restored = (
        Table(1100, 8192, "zeros", row_dtype=dtype, use_hash_index=False) for _ in range(2)
    )
    write_rows(saved, tf.range(1100, dtype=tf.int64), rows)
    path = tf.train.Checkpoint(table=saved).save(str(tmp_path / "model"))
    tf.train.Checkpoint(table=restored).restore(path).assert_consumed()
    np.testing.assert_array_equal(restored.export()[1], rows)


def test_stock_optimizers_outside_of_a_scope_are_refused(dtype):
    with tf.Graph().as_default():
        table = Table(8, 2, row_dtype=dtype, name="table")
        loss = tf.reduce_sum(lookup(table, tf.constant(KEYS), True))
        with pytest.raises(NotImplementedError, match=r"the table table, whose rows are .*Scope"):
            tf1.train.AdagradOptimizer(0.1).minimize(loss)
        refused = pytest.raises(NotImplementedError, match="ResourceSparseApplyAdadelta of Tens")
        with refused, sok.OptimizerScope([table]):
            tf1.train.AdadeltaOptimizer(0.1).minimize(loss)
        for name in ("SGD", "RMSprop", "Adamax", "Nadam"):  # whose scatters TensorFlow refuses
            optimizer = getattr(keras.optimizers.legacy, name)(0.1)
            gradients = tf.gradients(loss, [table])
            refused = pytest.raises(NotImplementedError, match=f"{name} of TensorFlow cannot upda")
            with refused, sok.OptimizerScope([table]):
                optimizer.apply_gradients(zip(gradients, [table]))
        with pytest.raises(NotImplementedError, match="scatter_nd_add.*row_dtype=tf.float32"):
            Table(8, 2, row_dtype=dtype, use_hash_index=False).scatter_nd_add([[0]], [[1.0, 2.0]])


@pytest.mark.parametrize("within", ["branch", "function"])
def test_stock_optimizers_in_functions_of_a_scope_are_refused(dtype, within):
    """A scope sees ops of its own graph only."""
    with tf.Graph().as_default():
        table = Table(8, 2, row_dtype=dtype, name="table")
        loss = tf.reduce_sum(lookup(table, tf.constant(KEYS), True))
        (gradient,) = tf.gradients(loss, [table])

        def update():
            step = tf1.train.AdagradOptimizer(0.1).apply_gradients([(gradient, table)])
            with tf.control_dependencies([step]):
                return tf.constant(1)

        refused = pytest.raises(NotImplementedError, match="AdagradOptimizer of TensorFlow cannot")
        with refused, sok.OptimizerScope([table]):
            if within == "function":
                tf.function(update)()
            else:
                tf.cond(tf1.placeholder_with_default(True, []), update, lambda: tf.constant(0))


def test_a_scope_takes_what_reads_and_writes_all_rows(dtype):
    with tf.Graph().as_default(), tf1.Session() as session:
        sok.Init(global_batch_size=len(KEYS))
        table = Table(8, 2, "ones", row_dtype=dtype)
        rows = lookup(table, tf.constant(KEYS), True)
        optimizer = tf1.train.MomentumOptimizer(0.0, 0.9)
        with sok.OptimizerScope([table]):
            step = optimizer.minimize(tf.reduce_sum(rows), var_list=[table])
            slot = optimizer.get_slot(table, "momentum")
            with tf.control_dependencies([step]):
                update = tf1.assign(slot, slot * 0.5 + table * 0.25)
            halved = table.assign(table * 0.5)
        session.run(tf1.global_variables_initializer())
        session.run(update)
        np.testing.assert_array_equal(session.run(slot)[: len(KEYS)], np.full((4, 2), 0.75))
        session.run(halved)
        np.testing.assert_array_equal(session.run(table.export()[1]), np.full((4, 2), 0.5))


@pytest.mark.parametrize("make", [
    lambda: tf1.train.AdadeltaOptimizer(0.1),
    lambda: tf1.train.AdagradOptimizer(0.1),
    lambda: keras.optimizers.legacy.Adagrad(0.1),
    lambda: stock_optimizers.AdagradOptimizer(0.1),
])  # fmt: skip
def test_optimizers_with_ops_of_tensorflow_are_refused_in_eager_mode(dtype, make):
    table = Table(8, 2, row_dtype=dtype, name="table")
    before = lookup(table, tf.constant(KEYS), True)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(lookup(table, tf.constant(KEYS), True))
    gradients = tape.gradient(loss, [table])
    with pytest.raises(NotImplementedError, match=f"cannot update the table table.*{dtype.name}"):
        make().apply_gradients(zip(gradients, [table]))
    np.testing.assert_array_equal(lookup(table, tf.constant(KEYS), True), before)


@pytest.mark.parametrize("in_function", [False, True], ids=["eager", "function"])
@pytest.mark.parametrize("name", ["SGD", "Adagrad", "Adam", "RMSprop", "Adadelta"])
def test_keras_optimizers_in_eager_mode(dtype, name, in_function):
    """They call methods of the variable: any of them trains rows of two bytes."""
    rows = {}
    for row_dtype in (tf.float32, dtype):
        table = Table(8, 2, tf.constant_initializer(0.3), row_dtype=row_dtype)
        optimizer = getattr(tf.keras.optimizers, name)(0.1)

        def step(table=table, optimizer=optimizer):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((lookup(table, tf.constant(KEYS), True) - TARGETS) ** 2)
            optimizer.apply_gradients(zip(tape.gradient(loss, [table]), [table]))

        step()  # makes slots
        step = tf.function(step) if in_function else step
        for _ in range(3):
            step()
        rows[row_dtype] = lookup(table, tf.constant(KEYS), True).numpy()
    np.testing.assert_allclose(rows[dtype], rows[tf.float32], atol=0.03)
    np.testing.assert_array_equal(rows[dtype], nearest(rows[dtype], dtype))
