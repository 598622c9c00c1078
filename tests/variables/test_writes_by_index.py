# SPDX-License-Identifier: Apache-2.0
"""Writes to all rows and by index: as of a variable without a hash index, refused with one."""

import contextlib
import copy

import numpy as np
import pytest
import sparse_operation_kit as sok
import tensorflow as tf

from sok_compat.runtime.tf_versions import keras_of_layers as keras
from sok_compat.tables import Table

tf1 = tf.compat.v1

ROWS = np.arange(1, 21, dtype=np.float32).reshape(10, 2)
SEVENS = np.full([10, 2], 7, np.float32)
SLICES = tf.IndexedSlices(np.array([[1.0, 2], [3, 4]], np.float32), np.array([8, 3]))
WRITES = {
    "assign": lambda v: v.assign(SEVENS),
    "assign_add": lambda v: v.assign_add(SEVENS),
    "assign_sub": lambda v: v.assign_sub(SEVENS),
    "tf.assign_add": lambda v: tf1.assign_add(v, SEVENS),
    "a copy": lambda v: v.assign(tf.identity(v) * 2.0),
    **{
        f"scatter_{update}": lambda v, update=update: getattr(v, f"scatter_{update}")(SLICES)
        for update in ("add", "sub", "update", "mul", "div", "max", "min")
    },
    **{
        f"tf.scatter_{update}": lambda v, update=update: getattr(tf1, f"scatter_{update}")(
            v, SLICES.indices, SLICES.values
        )
        for update in ("add", "sub", "update", "mul", "div", "max", "min")
    },
    **{
        f"scatter_nd_{update}": lambda v, update=update: getattr(v, f"scatter_nd_{update}")(
            [[8], [3]], SLICES.values
        )
        for update in ("add", "sub", "update", "max", "min")
    },
    "places": lambda v: v.scatter_nd_add([[8, 1], [3, 0]], [5.0, 6.0]),
    "tf.scatter_nd_update": lambda v: tf1.scatter_nd_update(v, [[1]], [[5.0, 6.0]]),
    "batch_scatter_update": lambda v: v.batch_scatter_update(SLICES),
}


@pytest.fixture(autouse=True)
def initialized():
    sok.init()


def static_table(initial):
    return sok.Variable(initial, name="t")


def layer_table(initial):
    sok.Init(global_batch_size=2)
    layer = sok.All2AllDenseEmbedding(
        10, 2, 1, 1, use_hashtable=False,
        embedding_initializer=tf1.constant_initializer(initial) if initial.any() else "zeros",
    )  # fmt: skip
    return layer.embedding_variable


def read(table, keys):
    ids = tf.RaggedTensor.from_tensor(tf.constant(keys, tf.int64)[:, tf.newaxis])
    return sok.lookup_sparse(table, ids, combiners="sum")


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("seen", [[], [3]], ids=["none", "one"])
@pytest.mark.parametrize("in_function", [False, True], ids=["eager", "function"])
def test_rows_that_no_lookup_has_inserted(write, seen, in_function):
    table, plain = sok.Variable(shape=(10, 2), initializer="ones"), tf.Variable(tf.ones([10, 2]))
    if seen:
        read(table, seen)

    def run(variable):
        write(variable)

    for variable in (table, plain):
        (tf.function(run) if in_function else run)(variable)
    keys = [0, 3, 8, 9]
    np.testing.assert_allclose(read(table, keys), tf.gather(plain, keys))
    np.testing.assert_allclose(table.value(), plain)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_in_a_session(write):
    with tf.Graph().as_default():
        sok.Init(global_batch_size=2)
        layer = sok.All2AllDenseEmbedding(
            10, 2, 1, 1, use_hashtable=False, embedding_initializer="ones"
        )
        keys = tf.constant([[0], [3], [8], [9]], tf.int64)
        found, table = layer(keys, training=False), layer.embedding_variable
        plain = tf1.Variable(tf.ones([10, 2]), use_resource=True)
        done = [tf.group(write(variable)) for variable in (table, plain)]
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(done)
            expected = session.run(plain)
            np.testing.assert_allclose(session.run(found)[:, 0], expected[[0, 3, 8, 9]])


def test_a_row_that_does_not_exist():
    table = sok.Variable(ROWS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="key 10 .*10"):
        tf1.scatter_update(table, [10], [[1.0, 1.0]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="does not index into shape"):
        table.scatter_nd_update([[10]], [[1.0, 1.0]])


READS = {
    "tf.gather_nd": lambda v: tf.gather_nd(v, [[3], [8]]),
    "numbers": lambda v: v.gather_nd([[[3, 1], [8, 0]]]),
    "tf.gather": lambda v: tf.gather(v, [3, 8]),
    "sparse_read": lambda v: v.sparse_read([[3], [8]]),
}


@pytest.mark.parametrize("use", READS.values(), ids=READS)
@pytest.mark.parametrize("kind", ["Table", "Variable"])
@pytest.mark.parametrize("in_function", [False, True], ids=["eager", "function"])
def test_reads_by_index(use, kind, in_function):
    if kind == "Table":
        table = Table(10, 2, tf1.constant_initializer(ROWS), use_hash_index=False)
    else:
        table = sok.Variable(ROWS)
    seen = []
    for variable in (table, tf.Variable(ROWS)):

        def run(variable=variable):
            with tf.GradientTape() as tape:
                values = use(variable)
                loss = tf.reduce_sum(values**2)
            return values, tf.convert_to_tensor(tape.gradient(loss, variable))

        seen.append((tf.function(run) if in_function else run)())
    for ours, plain in zip(*seen):
        np.testing.assert_allclose(ours, plain)


@pytest.mark.parametrize("kind", ["Variable", "DynamicVariable", "EmbeddingVariable"])
@pytest.mark.parametrize("how", ["eager", "graph"])
@pytest.mark.parametrize("name", ["embedding_lookup_sparse", "safe_embedding_lookup_sparse"])
def test_sparse_lookups_of_tensorflow_take_no_ids_for_rows(name, kind, how):
    """They do so without weights where the table and the ids are on one device."""
    with tf.Graph().as_default() if how == "graph" else contextlib.nullcontext():
        with tf.device("CPU:0"):
            table = sok.Variable(ROWS) if kind == "Variable" else hash_table(kind)
            ids = tf.sparse.from_dense([[3, 8]])
            look_up = lambda: getattr(tf.nn, name)(table, ids, None, combiner="sum")  # noqa: E731
            if kind != "Variable":
                with pytest.raises(NotImplementedError, match="take ids for rows.* Look keys up"):
                    look_up()
                return
            found = look_up()
        if how == "graph":
            with tf1.Session() as session:
                session.run(tf1.global_variables_initializer())
                found = session.run(found)
        np.testing.assert_array_equal(found, [ROWS[3] + ROWS[8]])


def test_shapes_and_copies():
    table = sok.Variable(ROWS)
    table.set_shape([10, None])
    with pytest.raises(ValueError, match="not compatible"):
        table.set_shape([3, 2])
    copied = copy.deepcopy(table)
    table.assign(SEVENS)
    np.testing.assert_array_equal(copied, ROWS)
    for use in (copy.deepcopy, lambda v: v.set_shape([3, 2])):
        with pytest.raises(NotImplementedError, match="is not defined for the table"):
            use(sok.DynamicVariable(2))


@pytest.mark.parametrize("error, use", [
    (RuntimeError, lambda v: v.__iadd__(1.0)), (TypeError, int),
    (tf.errors.InvalidArgumentError, lambda v: v.count_up_to(3)),
])  # fmt: skip
def test_what_no_matrix_can(error, use):
    for variable in (sok.Variable(ROWS), tf.Variable(ROWS)):
        with pytest.raises(error):
            use(variable)


def test_load():
    table = sok.Variable(0 * ROWS)
    table.load(ROWS)
    np.testing.assert_array_equal(read(table, [1, 9]), ROWS[[1, 9]])
    with tf.Graph().as_default():
        sok.init()
        table = sok.Variable(shape=(10, 2), initializer="ones")
        found = read(table, [1, 9])
        with pytest.raises(ValueError, match="needs a session"):
            table.load(ROWS)
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            for rows in (ROWS, SEVENS):
                table.load(rows)
                np.testing.assert_array_equal(session.run(found), rows[[1, 9]])


@pytest.mark.parametrize("in_function", [False, True], ids=["eager", "function"])
def test_slices(in_function):
    table, plain = sok.Variable(0 * ROWS), tf.Variable(0 * ROWS)

    def write(variable):
        variable[3:5].assign(SEVENS[3:5])

    for variable in (table, plain):
        (tf.function(write) if in_function else write)(variable)
    np.testing.assert_array_equal(read(table, [2, 3, 4]), plain[2:5])


def hash_table(kind):
    if kind == "DynamicVariable":
        return sok.DynamicVariable(2, "zeros")
    sok.Init(global_batch_size=2)
    return sok.All2AllDenseEmbedding(10, 2, 1, 1, embedding_initializer="zeros").embedding_variable


OF_USERS = {name: write for name, write in WRITES.items() if "scatter" in name}
OF_USERS.update(
    {
        "tf.scatter_nd_update": lambda v: tf1.scatter_nd_update(v, [[1]], [[1.0, 1.0]]),
        "tf.scatter_nd_add": lambda v: tf1.scatter_nd_add(v, [[1]], [[1.0, 1.0]]),
        "tf.batch_scatter_update": lambda v: tf1.batch_scatter_update(v, [1], [[1.0, 1.0]]),
        "a slice": lambda v: v[1].assign([1.0, 1.0]),
    }
)


@pytest.mark.parametrize("write", OF_USERS.values(), ids=OF_USERS)
@pytest.mark.parametrize("kind", ["DynamicVariable", "EmbeddingVariable"])
@pytest.mark.parametrize("how", ["eager", "function", "graph"])
def test_rows_with_keys_have_no_index(write, kind, how):
    def check():
        table = hash_table(kind)
        with pytest.raises(NotImplementedError, match="rows +belong to keys"):
            write(table)

    with tf.Graph().as_default() if how == "graph" else contextlib.nullcontext():
        (tf.function(check, autograph=False) if how == "function" else check)()


@pytest.mark.parametrize("how", ["eager", "function", "graph"])
@pytest.mark.parametrize("is_unique", [False, True])
def test_gradients_have_row_ids(how, is_unique):
    with tf.Graph().as_default() if how == "graph" else contextlib.nullcontext():
        table = sok.DynamicVariable(2, "zeros")

        def step():
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(read(table, [20, 30]))
            gradient = tape.gradient(loss, table)
            indices = tf.unique(gradient.indices)[0] if is_unique else gradient.indices
            return table.scatter_sub(tf.IndexedSlices(gradient.values, indices))

        if how == "graph":
            done, found = step(), table.export()
            with tf1.Session() as session:
                session.run(tf1.global_variables_initializer())
                session.run(done)
                np.testing.assert_array_equal(session.run(found)[1], -np.ones([2, 2]))
        else:

            def run():
                step()

            (tf.function(run) if how == "function" else run)()
            np.testing.assert_array_equal(table.export()[1], -np.ones([2, 2]))


INDICES = {
    "cond": lambda own, other: tf.cond(tf.size(own) > 0, lambda: ONE, lambda: ONE * 2),
    "a function": lambda own, other: tf.function(lambda: ONE + 0)(),
    "of another table": lambda own, other: other,
    "with others": lambda own, other: tf.concat([own, ONE], 0),
    "their number": lambda own, other: tf.range(tf.size(own), dtype=tf.int64),
}
ONE = np.array([1])


@pytest.mark.parametrize("indices", INDICES.values(), ids=INDICES)
def test_other_indices_in_functions(indices):
    tables = sok.DynamicVariable(2, "zeros"), sok.DynamicVariable(2, "zeros")

    @tf.function(autograph=False)
    def write():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(read(tables[0], [20, 30])) + tf.reduce_sum(read(tables[1], [20]))
        own, other = (each.indices for each in tape.gradient(loss, tables))
        values, found = tf.ones([1, 2]), indices(own, other)
        tables[0].scatter_add(tf.IndexedSlices(tf.repeat(values, tf.size(found), 0), found))

    errors = tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError
    with pytest.raises(
        errors, match="does not belong to a lookup|is the gradient of another table"
    ):
        write()


def test_gradients_through_branches_have_row_ids():
    table = sok.DynamicVariable(2, "zeros")

    @tf.function(autograph=False)
    def step(is_read):
        with tf.GradientTape() as tape:
            loss = tf.cond(is_read, lambda: tf.reduce_sum(read(table, [20, 30])), lambda: 0.0)
        table.scatter_sub(tape.gradient(loss, table))

    step(tf.constant(True))
    np.testing.assert_array_equal(table.export()[1], -np.ones([2, 2]))


def keras_model():
    sok.Init(global_batch_size=8)
    layer = sok.All2AllDenseEmbedding(
        10, 2, 1, 1, use_hashtable=False, embedding_initializer="ones"
    )
    model = keras.Sequential([keras.Input([1], dtype=tf.int64), layer, keras.layers.Flatten()])
    model.compile(keras.optimizers.legacy.Adagrad(0.5), "mse")
    return model


KEYS = np.arange(8)[:, np.newaxis]


def test_copies_of_keras_models(tmp_path):
    model = keras_model()
    model.fit(KEYS[:4], np.zeros([4, 2]), epochs=2, verbose=0)
    expected = model.predict(KEYS, verbose=0)
    copy, from_file = keras_model(), keras_model()
    copy.set_weights(model.get_weights())
    model.save_weights(tmp_path / "m.h5")
    from_file.load_weights(tmp_path / "m.h5")
    for other in (copy, from_file):
        np.testing.assert_array_equal(other.predict(KEYS, verbose=0), expected)
    copy.optimizer._create_all_weights(copy.trainable_variables)
    copy.optimizer.set_weights(model.optimizer.get_weights())
    for each in (model, copy):  # the accumulators, too
        each.fit(KEYS, np.zeros([8, 2]), batch_size=8, verbose=0)
    np.testing.assert_array_equal(copy.predict(KEYS, verbose=0), model.predict(KEYS, verbose=0))


@pytest.mark.parametrize("make", [static_table, layer_table])
@pytest.mark.parametrize("is_read", [False, True])
def test_given_rows_are_saved_whole(make, is_read, tmp_path):
    table = make(ROWS)
    if is_read:
        read(table, [1, 2])
    path = tf.train.Checkpoint(t=table).save(str(tmp_path / "c"))
    other = make(0 * ROWS)
    tf.train.Checkpoint(t=other).restore(path)
    np.testing.assert_array_equal(read(other, [1, 2, 5]), ROWS[[1, 2, 5]])


def test_given_rows_beyond_a_checkpoint(tmp_path):
    table = sok.Variable(shape=(10, 2), initializer="zeros")
    read(table, [1])
    path = tf.train.Checkpoint(t=table).save(str(tmp_path / "c"))
    other = sok.Variable(ROWS)
    checkpoint = tf.train.Checkpoint(t=other)
    checkpoint.restore(path)
    path = checkpoint.save(str(tmp_path / "d"))
    third = sok.Variable(shape=(10, 2), initializer="zeros")
    tf.train.Checkpoint(t=third).restore(path)
    np.testing.assert_array_equal(read(third, [1, 2, 5]), [[0, 0], ROWS[2], ROWS[5]])


def test_given_rows_are_dumped_whole(tmp_path):
    table = sok.Variable(ROWS, name="dumped")
    read(table, [1])
    sok.dump(str(tmp_path), [table, table])  # a variable given twice is dumped once
    table.assign(0 * ROWS)
    sok.load(str(tmp_path), [table, table])
    np.testing.assert_array_equal(read(table, [1, 2, 5]), ROWS[[1, 2, 5]])


def test_given_rows_in_a_saver(tmp_path):
    with tf.Graph().as_default():
        sok.init()
        table = sok.Variable(ROWS, name="saved")
        saver, cleared = tf1.train.Saver(), table.assign(0 * ROWS)
        found = read(table, [1, 5])
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            path = saver.save(session, str(tmp_path / "c"))
            session.run(cleared)
            saver.restore(session, path)
            np.testing.assert_array_equal(session.run(found), ROWS[[1, 5]])
