# SPDX-License-Identifier: Apache-2.0
"""Gradients that are applied after their step: to the rows of their keys, or not at all."""

import os

import numpy as np
import pytest
import sparse_operation_kit as sok
import tensorflow as tf

from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.table_lookup import Lookup
from tests.support.gradients_of_tables import OPTIMIZERS, like, new_table, read, update

tf1 = tf.compat.v1
MOST = 6


@pytest.fixture(autouse=True)
def initialized():
    sok.init()


def gradient(table, *batches, factor=1.0):
    with tf.GradientTape() as tape:
        loss = sum(factor * tf.reduce_sum(read(table, keys)) for keys in batches)
    return tape.gradient(loss, table)


def rows_of(table):
    keys, rows = table.export()
    return dict(zip(keys.numpy().tolist(), rows.numpy()[:, 0].tolist()))


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


def test_of_a_lookup_that_finds_tables_at_once():
    tables = [new_table() for _ in range(max(2, os.cpu_count()))]  # as many as threads
    for table in tables:
        read(table, [5, 6])
    lookups = [Lookup(table, tf.constant([6], tf.int64)) for table in tables]
    with tf.GradientTape() as tape:
        loss = tf.add_n([tf.reduce_sum(rows) for rows in lookup_group(lookups, False)])
    for table, slices in zip(tables, tape.gradient(loss, tables)):
        update(tf1.train.GradientDescentOptimizer(1.0), slices, table)
        assert rows_of(table) == {5: 0.0, 6: -1.0}


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


def of_loss(loss_of):
    """A form: the gradient of a lookup, and of a loss of the whole table."""

    def form(dense, older, table):
        with tf.GradientTape() as tape:
            loss = loss_of(table.value())
        return dense() + tape.gradient(loss, table)

    return form


def of_python(older, given, shape=None):
    found = tf.numpy_function(lambda x: np.array(older), [given], tf.float32)
    found.set_shape(shape)
    return found


IN_FUNCTIONS = {
    "made there": (lambda dense, *_: dense(), True),
    "changed": (lambda dense, *_: tf.clip_by_norm(tf.reshape(dense(), [-1, 2]), 0.5), True),
    "in a branch": (lambda dense, *_: tf.cond(tf.constant(True), dense, dense), True),
    "of a function": (lambda dense, *_: tf.function(dense)(), True),
    "of one number": (lambda dense, *_: dense() * tf.constant([[2.0]]), True),
    "of another gradient": (lambda dense, *_: own_gradient(dense()), True),
    "by column": (lambda dense, *_: dense() * tf.constant([2.0, 3.0]), True),
    "with noise": (lambda dense, *_: dense() + tf.random.normal([40, 2], stddev=0.01), True),
    "where": (lambda dense, *_: tf.where(dense() > 0, dense(), tf.ones([40, 2])), True),
    "scaled in Python": (
        lambda dense, *_: dense() * of_python(np.float32(2), dense(), []), True
    ),
    "largest": (of_loss(tf.reduce_max), True),
    "orthogonal rows": (
        of_loss(lambda rows: tf.reduce_sum(tf.abs(rows @ tf.transpose(rows) * (1 - tf.eye(40))))),
        True,
    ),
    "orthogonal columns": (
        of_loss(lambda rows: tf.reduce_sum(tf.abs(tf.transpose(rows) @ rows - tf.eye(2)))), True
    ),
    "projected": (of_loss(lambda rows: tf.reduce_sum((rows @ PROJECTION) ** 2)), True),
    "captured": (lambda dense, older, _: older, False),
    "both": (lambda dense, older, _: dense() + 0.0 * older, False),
    "in one branch": (
        lambda dense, older, _: tf.cond(tf.constant(True), lambda: older, dense), False
    ),
    "kept": (lambda *_: KEPT.read_value(), False),
    "of Python": (lambda dense, older, _: of_python(older, dense(), [40, 2]), False),
    "of Python, of any shape": (lambda dense, older, _: of_python(older, dense()), False),
    "by row": (lambda dense, older, _: dense() * tf.reduce_max(older, 1, keepdims=True), False),
    "a mask": (lambda dense, older, _: dense() * tf.cast(older > 0, tf.float32), False),
}  # fmt: skip
PROJECTION = tf.Variable([[1.0, 2.0, 3.0], [0.5, 1.0, 1.0]])
KEPT = tf.Variable(tf.zeros([40, 2]))


@pytest.mark.parametrize("name", IN_FUNCTIONS)
@pytest.mark.parametrize("optimizer", OF_DENSE)
def test_dense_gradients_in_functions(tmp_path, optimizer, name):
    """Those that a function makes are applied; others may be of rows before the restore."""
    form, is_applied = IN_FUNCTIONS[name]
    table, optimizer = new_table(capacity=40), OF_DENSE[optimizer]()
    read(table, [1, 2])
    path = tf.train.Checkpoint(t=table).write(str(tmp_path / "rows"))
    older = tf.convert_to_tensor(gradient(table, [2]))
    KEPT.assign(older)
    tf.train.Checkpoint(t=table).read(path)

    def step():
        def dense():
            return tf.convert_to_tensor(gradient(table, [2]))

        update(optimizer, form(dense, older, table), table)

    run = tf.function(step)
    if is_applied:
        for _ in range(2):
            before = rows_of(table)[2]
            run()
            assert rows_of(table)[2] != before
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
