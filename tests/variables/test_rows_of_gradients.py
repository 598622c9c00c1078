# SPDX-License-Identifier: Apache-2.0
"""Gradients that are applied after their step: to the rows of their keys, or not at all."""

import numpy as np
import pytest
import sparse_operation_kit as sok
import tensorflow as tf

from sok_compat.runtime.tf_versions import has_keras_2, keras_of_layers
from sok_compat.tables.table import Table
from sok_compat.training.keras_3_tables import TableVariable
from tests.support.row_ids import rows_of_python

tf1 = tf.compat.v1
MOST = 6


@pytest.fixture(autouse=True)
def initialized():
    sok.init()


def new_table(initializer="zeros", capacity=None):
    """A table without a declared capacity, or with it, as Keras 3 needs one."""
    if has_keras_2 and capacity is None:
        return sok.DynamicVariable(2, initializer)
    table = Table(capacity or 1000, 2, initializer)
    if not has_keras_2:
        table.holder = TableVariable(table)
    return table


def update(optimizer, slices, table):
    is_of_keras_3 = not has_keras_2 and isinstance(optimizer, keras_of_layers.optimizers.Optimizer)
    optimizer.apply_gradients(
        [(slices, getattr(table, "holder", table) if is_of_keras_3 else table)]
    )


def read(table, keys):
    bags = tf.RaggedTensor.from_row_lengths(tf.constant(keys, tf.int64), [1] * len(keys))
    return sok.lookup_sparse(table, bags, combiners="sum")


def gradient(table, *batches, factor=1.0):
    with tf.GradientTape() as tape:
        loss = sum(factor * tf.reduce_sum(read(table, keys)) for keys in batches)
    return tape.gradient(loss, table)


def rows_of(table):
    keys, rows = table.export()
    return dict(zip(keys.numpy().tolist(), rows.numpy()[:, 0].tolist()))


def like(slices, values, indices):
    return tf.IndexedSlices(values, indices, slices.dense_shape)


def unique(slices):
    indices, places = tf.unique(slices.indices)
    return like(
        slices, tf.math.unsorted_segment_sum(slices.values, places, tf.size(indices)), indices
    )


FORMS = {
    "as it is": lambda slices: slices,
    "joined": lambda s: like(s, *(tf.concat([x, x], 0) for x in (s.values / 2, s.indices))),
    "unique": unique,
    "sorted": lambda s: like(
        s, *(tf.gather(x, tf.argsort(s.indices)) for x in (s.values, s.indices))
    ),
    "of the host": lambda s: like(s, *(tf.constant(x.numpy()) for x in (s.values, s.indices))),
    "of a function": lambda s: tf.function(lambda: like(s, s.values + 0, s.indices[:]))(),
}


class ByHand:
    def apply_gradients(self, pairs):
        for slices, variable in pairs:
            variable.scatter_sub(slices)


OPTIMIZERS = {
    "train.SGD": lambda: tf1.train.GradientDescentOptimizer(1.0),
    "train.Momentum": lambda: tf1.train.MomentumOptimizer(1.0, 0.5),
    "train.RMSProp": lambda: tf1.train.RMSPropOptimizer(0.1),
    "train.Adam": lambda: tf1.train.AdamOptimizer(0.1),
    "keras.SGD": lambda: keras_of_layers.optimizers.SGD(1.0),
    "keras.Adagrad": lambda: keras_of_layers.optimizers.Adagrad(0.1),
    "keras.Adam": lambda: keras_of_layers.optimizers.Adam(0.1),
    "sok.SGD": lambda: sok.SGD(1.0),
    "by hand": ByHand,
}
if has_keras_2:
    legacy = keras_of_layers.optimizers.legacy
    OPTIMIZERS.update(
        {
            "legacy.SGD": lambda: legacy.SGD(1.0),
            "legacy.Adam": lambda: legacy.Adam(0.1),
            "legacy.Adagrad": lambda: legacy.Adagrad(0.1),
            "wrapped train.Adam": lambda: sok.OptimizerWrapper(tf1.train.AdamOptimizer(0.1)),
            "wrapped legacy.SGD": lambda: sok.OptimizerWrapper(legacy.SGD(1.0)),
            "wrapped keras.Adam": lambda: sok.OptimizerWrapper(
                keras_of_layers.optimizers.Adam(0.1)
            ),
        }
    )


def applied(optimizer, slices, table, in_function):
    def run():
        update(optimizer, slices, table)

    (tf.function(run) if in_function else run)()


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_after_a_restore(tmp_path, make, form):
    table, optimizer = new_table(), make()
    read(table, [30, 2, 3, 1])
    path = tf.train.Checkpoint(t=table).write(str(tmp_path / "four"))
    table = new_table()
    slices = form(gradient(table, [1], [1, 2]))
    tf.train.Checkpoint(t=table).read(path)  # key 30 is in the row of key 1, and so on
    with pytest.raises(tf.errors.FailedPreconditionError, match="restored, loaded or initialized"):
        applied(optimizer, slices, table, in_function=False)
    assert rows_of(table) == dict.fromkeys([1, 2, 3, 30], 0.0)
    applied(optimizer, form(gradient(table, [2])), table, in_function=False)
    assert rows_of(table)[2] < 0 == rows_of(table)[1]


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
@pytest.mark.parametrize("in_function", [False, True], ids=["eager", "function"])
def test_indices_of_no_lookup(make, in_function):
    table, other = new_table(), new_table()
    read(table, [20, 30])
    own = gradient(table, [30])
    for indices in (tf.constant([1], tf.int64), tf.constant([0]), gradient(other, [20]).indices):
        slices = like(own, own.values, indices)
        errors = tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError
        with pytest.raises(errors, match="does not belong to a lookup|gradient of another table"):
            applied(make(), slices, table, in_function)
    assert rows_of(table) == {20: 0.0, 30: 0.0}


OF_DENSE = {name: make for name, make in OPTIMIZERS.items() if name != "by hand"}


@pytest.mark.parametrize("make", OF_DENSE.values(), ids=OF_DENSE)
def test_sums_as_dense_tensors(make):
    table, plain = new_table(), tf.Variable(tf.zeros([3, 2]))
    read(table, [0, 1, 2])
    optimizers = [make(), make()]
    for _ in range(2):
        slices = [gradient(table, [0, 2]), gradient(table, [2])]
        dense = tf.add_n(slices)
        np.testing.assert_array_equal(dense[:3], [[1, 1], [0, 0], [2, 2]])
        update(optimizers[0], dense, table)
        optimizers[1].apply_gradients([(dense[:3], plain)])
    np.testing.assert_allclose(table.export()[1], plain, rtol=1e-6)


def of_all_rows(table):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(table.value())
    return tape.gradient(loss, table)


DENSE = {
    "sum": lambda table: tf.add_n([gradient(table, [1]), gradient(table, [1, 2])]),
    "converted": lambda table: tf.convert_to_tensor(gradient(table, [2])),
    "scaled": lambda table: 0.5 * tf.convert_to_tensor(gradient(table, [2])),
    "of all rows": of_all_rows,
    "of a function": lambda t: tf.function(lambda: tf.convert_to_tensor(gradient(t, [2])))(),
}
STALE = "restored, loaded or initialized"


@pytest.mark.parametrize(("name", "in_function"), [*((n, False) for n in DENSE), ("sum", True)])
@pytest.mark.parametrize("optimizer", OF_DENSE)
def test_dense_gradients_after_a_restore(tmp_path, optimizer, name, in_function):
    form, optimizer = DENSE[name], OF_DENSE[optimizer]()
    table = new_table()
    read(table, [30, 2, 3, 1])
    path = tf.train.Checkpoint(t=table).write(str(tmp_path / "four"))
    table = new_table()
    older, slices = form(table), gradient(table, [1, 2])
    tf.train.Checkpoint(t=table).read(path)
    with pytest.raises(tf.errors.FailedPreconditionError, match=STALE):
        tf.convert_to_tensor(slices)
    newer = form(table)
    for dense in (older, tf.identity(older), older.numpy(), newer + older, newer):
        with pytest.raises(tf.errors.FailedPreconditionError, match=STALE):
            applied(optimizer, dense, table, in_function)
    assert rows_of(table) == dict.fromkeys([1, 2, 3, 30], 0.0)
    update(optimizer, gradient(table, [2]), table)
    assert rows_of(table)[2] < 0 == rows_of(table)[1]


own_gradient = tf.custom_gradient(lambda x: (x, lambda upstream: upstream))
IN_FUNCTIONS = {
    "made there": (lambda dense, older: dense(), True),
    "changed": (lambda dense, older: tf.clip_by_norm(tf.reshape(dense(), [-1, 2]), 0.5), True),
    "in a branch": (lambda dense, older: tf.cond(tf.constant(True), dense, dense), True),
    "of a function": (lambda dense, older: tf.function(dense)(), True),
    "of one number": (lambda dense, older: dense() * tf.constant([[2.0]]), True),
    "of another gradient": (lambda dense, older: own_gradient(dense()), True),
    "captured": (lambda dense, older: older, False),
    "both": (lambda dense, older: dense() + 0.0 * older, False),
    "in one branch": (lambda dense, older: tf.cond(tf.constant(True), lambda: older, dense), False),
    "kept": (None, False),
}


@pytest.mark.parametrize("name", IN_FUNCTIONS)
@pytest.mark.parametrize("optimizer", OF_DENSE)
def test_dense_gradients_in_functions(tmp_path, optimizer, name):
    """Those that a function makes are applied; others may be of rows before the restore."""
    form, is_applied = IN_FUNCTIONS[name]
    table, optimizer = new_table(capacity=40), OF_DENSE[optimizer]()
    read(table, [1, 2])
    path = tf.train.Checkpoint(t=table).write(str(tmp_path / "rows"))
    kept = tf.Variable(older := tf.convert_to_tensor(gradient(table, [2])))
    tf.train.Checkpoint(t=table).read(path)

    def step():
        def dense():
            return tf.convert_to_tensor(gradient(table, [2]))

        update(optimizer, kept.read_value() if name == "kept" else form(dense, older), table)

    run = tf.function(step)
    if is_applied:
        for _ in range(2):
            before = rows_of(table)[2]
            run()
            assert rows_of(table)[2] < before
    else:
        with pytest.raises(tf.errors.FailedPreconditionError, match=STALE):
            run()
        assert not any(rows_of(table).values())


SGD = {name: make for name, make in OPTIMIZERS.items() if "SGD" in name or name == "by hand"}


class Model:
    """What a table is to hold: a number for each key, and which life of a key has it."""

    def __init__(self):
        self.rows, self.lives, self.num_restores = {}, {}, 0
        self.has_dense = self.is_dense_stale = (
            False  # keys lost rows that a dense gradient may have
        )

    def look_up(self, table, factor, batches):
        """Returns a gradient, and what it is of."""
        loss, of_keys = 0.0, []
        with tf.GradientTape() as tape:
            for keys in batches:
                loss += factor * tf.reduce_sum(read(table, keys))
                now = rows_of(table)
                evicted = self.rows.keys() - now.keys()
                self.is_dense_stale |= self.has_dense and bool(evicted)
                for key in evicted:
                    del self.rows[key], self.lives[key]
                for key in now.keys() - self.rows.keys():
                    self.rows[key], self.lives[key] = 1.0, object()
                of_keys += [(key, self.lives[key], factor) for key in keys]
        return tape.gradient(loss, table), of_keys

    def restore(self, rows):
        self.num_restores += 1
        self.is_dense_stale |= self.has_dense
        self.rows, self.lives = dict(rows), {key: object() for key in rows}

    def refuses(self, gradient, num_restores):
        is_dense = isinstance(gradient, tf.Tensor)
        return num_restores != self.num_restores or (is_dense and self.is_dense_stale)


@pytest.mark.parametrize("name", SGD)
@pytest.mark.parametrize("max_keys", [None, MOST], ids=["", "limited"])
@pytest.mark.parametrize("in_function", [False, True], ids=["eager", "function"])
def test_random_steps_as_in_numpy(tmp_path, name, max_keys, in_function):
    """Lookups, gradients that wait, evictions and restores; a dict is the model."""
    random = np.random.default_rng(len(name))
    options = {} if max_keys is None else {
        "var_type": "hybrid", "init_capacity": max_keys, "max_capacity": max_keys
    }  # fmt: skip
    is_limited = max_keys is not None
    table = sok.DynamicVariable(2, "ones", **options) if is_limited else new_table("ones")
    optimizer, model = SGD[name](), Model()
    forms = list(FORMS.values())
    if not in_function and name in OF_DENSE:
        forms += 3 * [tf.convert_to_tensor]
    saved, waiting, outcomes = None, [], {"applied": 0, "evicted": 0, "refused": 0}
    for step in range(40):
        batches = random.integers(0, 12, [2, 3]).tolist()
        factor = float(random.choice([0.25, 0.5, 1.0]))
        slices, of_keys = model.look_up(table, factor, batches)
        form = forms[random.integers(len(forms))]
        waiting.append((form(slices), of_keys, model.num_restores))
        model.has_dense |= form is tf.convert_to_tensor
        kind = random.integers(12)
        if kind == 0:
            saved = tf.train.Checkpoint(t=table).write(str(tmp_path / str(step))), dict(model.rows)
        elif kind == 1 and saved is not None:
            tf.train.Checkpoint(t=table).read(saved[0])
            model.restore(saved[1])
        while len(waiting) > random.integers(6):
            slices, of_keys, since = waiting.pop(random.integers(len(waiting)))
            if model.refuses(slices, since):
                with pytest.raises(tf.errors.FailedPreconditionError):
                    applied(optimizer, slices, table, in_function)
                outcomes["refused"] += 1
                continue
            applied(optimizer, slices, table, in_function)
            for key, life, amount in of_keys:
                is_same = model.lives.get(key) is life
                outcomes["applied" if is_same else "evicted"] += 1
                if is_same:
                    model.rows[key] -= amount
        now = rows_of(table)
        assert now.keys() == model.rows.keys()
        expected = list(model.rows.values())
        np.testing.assert_allclose([now[key] for key in model.rows], expected, rtol=1e-5)
    assert outcomes["applied"] > 20
    assert (outcomes["evicted"] > 0) == is_limited


def keys_of_data():
    data = tf1.data.make_one_shot_iterator(tf1.data.Dataset.from_tensors(np.array([1])))
    return data.get_next()


OF_KEYS = {
    "constant": lambda keys, found: tf.constant([1], tf.int64),
    "of a dataset": lambda keys, found: keys_of_data(),
    "looked up": lambda keys, found: keys,
    "chosen": lambda keys, found: tf.boolean_mask(keys, keys > 0),
    "with others": lambda keys, found: tf.concat([found, keys], axis=0),
    "fed": lambda keys, found: tf1.placeholder(tf.int64, [None]),
    "computed": lambda keys, found: found + 1,
}
IN_GRAPHS = {
    name: make for name, make in OPTIMIZERS.items() if not name.startswith(("keras", "wrapped k"))
}


@pytest.mark.parametrize("name", OF_KEYS)
@pytest.mark.parametrize("make", IN_GRAPHS.values(), ids=IN_GRAPHS)
def test_keys_as_indices_in_a_graph(make, name):
    """Rows 0 and 1 are of keys 1 and 20; the gradient of a lookup, also kept, moves key 1's.

    There is no row 2."""
    with tf.Graph().as_default():
        sok.init()
        table, keys = new_table(), tf1.placeholder(tf.int64, [None])
        bags = tf.RaggedTensor.from_row_splits(keys, [0, 1])
        loss = tf.reduce_sum(sok.lookup_sparse(table, bags, combiners="sum"))
        (of_lookup,) = tf1.gradients(loss, [table])
        ids = OF_KEYS[name](keys, of_lookup.indices)
        slices = like(of_lookup, tf.ones([2 if name == "with others" else 1, 2]), ids)
        with pytest.raises(NotImplementedError, match="rows belong to keys"):
            make().apply_gradients([(slices, table)])
        row_ids = [0]
        kept = like(of_lookup, tf.ones([1, 2]), rows_of_python(row_ids))
        if make is ByHand:
            return
        train = [make().apply_gradients([(each, table)]) for each in (of_lookup, kept)]
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            found = [session.run(of_lookup.indices, {keys: [key]}) for key in (1, 20)]
            session.run(train[0], {keys: [1]})
            row_ids[:] = found[0]
            session.run(train[1])
            row_ids[:] = found[1] + 1
            with pytest.raises(tf.errors.InvalidArgumentError, match="row 2, but .* has 2 rows"):
                session.run(train[1])
            exported_keys, rows = session.run(table.export())
    rows = dict(zip(exported_keys.tolist(), rows[:, 0].tolist()))
    assert rows[1] < 0 == rows[20]
