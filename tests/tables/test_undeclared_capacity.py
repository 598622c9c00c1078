# SPDX-License-Identifier: Apache-2.0
"""Tables without a capacity: as those with one, however often they grow; and hundreds of them."""

import contextlib
import threading

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from sok_compat import checkpoint
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from sok_compat.tables import Table
from sok_compat.tables.rows.row_generations import rows_of_gradient
from sok_compat.tables.slots.registry import slot_for
from sok_compat.training.fused_adam import adam_step_size, apply_adam, state_of
from tests.support.lookups import lookup
from tests.support.processes.subprocess_python import run_python

tf1 = tf.compat.v1
DIM = 1 << 12  # 256 rows in the 4 MiB that a plane starts with
CAPACITY = 4096
STEPS, KEYS_A_STEP = 5, 500


def batches():
    """[keys]: mostly keys that have not come before, so that the table grows in most steps."""
    rng = np.random.default_rng(3)
    for step in range(STEPS):
        yield rng.integers(0, (step + 1) * KEYS_A_STEP, KEYS_A_STEP)


class Optimizer:
    """Told from others by identity."""


def fused_adam(run, table, is_lazy):
    optimizer = Optimizer()

    def update(loss_of):
        loss, slices = run.gradient(loss_of, table)
        slices = rows_of_gradient(table, slices)
        step = apply_adam(
            table,
            state_of(table, optimizer),
            slices.values,
            slices.indices,
            step_size=adam_step_size(0.1, 0.9, 0.999),
            beta1=0.9,
            beta2=0.999,
            epsilon=1e-7,
            is_lazy=is_lazy,
        )
        with tf.control_dependencies([] if step is None else [step]):
            return tf.identity(loss)

    return update


def sparse_momentum(table, slot, gradient, learning_rate, momentum):
    """TensorFlow's own op on a table's slices."""
    return tf.raw_ops.ResourceSparseApplyMomentum(
        var=table.handle,
        accum=slot.handle,
        lr=learning_rate,
        grad=gradient.values,
        indices=gradient.indices,
        momentum=momentum,
    )


def stock_sparse_momentum(run, table):
    slot = slot_for(table, Optimizer(), "momentum", fill=0.5)

    def update(loss_of):
        loss, slices = run.gradient(loss_of, table)
        slices = rows_of_gradient(table, slices)
        step = sparse_momentum(table, slot, slices, 0.1, 0.9)
        with tf.control_dependencies([] if step is None else [step]):
            return tf.identity(loss)

    return update


def stock(make, scope):
    def rule(run, table):
        optimizer = make()

        def update(loss_of):
            with scope([table]):
                return run.apply(optimizer, loss_of, table)

        return update

    return rule


def in_scope(make):
    return stock(make, sok_compat.OptimizerScope)


def without_scope(make):
    return stock(make, contextlib.nullcontext)


RULES = {
    "Adam": lambda run, table: fused_adam(run, table, is_lazy=False),
    "LazyAdam": lambda run, table: fused_adam(run, table, is_lazy=True),
    "sparse Momentum": stock_sparse_momentum,
    "Keras Adagrad": in_scope(lambda: keras.optimizers.legacy.Adagrad(0.1)),
    "Keras Adam": in_scope(lambda: keras.optimizers.legacy.Adam(0.1)),
    "TF1 Momentum": in_scope(lambda: tf1.train.MomentumOptimizer(0.1, 0.9)),
    "TF1 Ftrl": in_scope(lambda: tf1.train.FtrlOptimizer(0.1)),
    "TF1 Adam, no scope": without_scope(lambda: tf1.train.AdamOptimizer(0.1)),
    "TF1 ProximalAdagrad, no scope": without_scope(lambda: tf1.train.ProximalAdagradOptimizer(0.1)),
    "TF1 centered RMSProp, no scope": without_scope(
        lambda: tf1.train.RMSPropOptimizer(0.1, centered=True)
    ),
}


def wanted(keys):
    """What rows are to become, all different."""
    return tf.sin(tf.cast(keys, tf.float32))[:, tf.newaxis] * np.linspace(0.5, 1.0, DIM, dtype="f")


def trained(run, table, rule):
    """(losses, {key: row})"""
    update = rule(run, table)

    def compute(keys):
        return update(lambda: tf.reduce_sum((lookup(table, keys, True) - wanted(keys)) ** 2))

    step = run.repeated(compute)
    losses = [step(keys) for keys in batches()]
    keys, rows = run(table.export)
    return losses, dict(zip(keys.tolist(), rows))


@pytest.mark.parametrize("rule", RULES)
def test_trains_as_with_a_capacity(run, rule):
    tables = [Table(capacity, DIM, "zeros") for capacity in (CAPACITY, None)]
    expected, actual = (trained(run, table, RULES[rule]) for table in tables)
    assert len(actual[1]) > 4 * 256  # it has grown more than once
    np.testing.assert_array_equal(actual[0], expected[0])
    assert actual[1].keys() == expected[1].keys()
    for key, row in expected[1].items():
        np.testing.assert_array_equal(actual[1][key], row)


def test_first_values_are_those_with_a_capacity():
    exported = []
    for capacity in (CAPACITY, None):
        with tf.Graph().as_default(), tf1.Session() as session:
            table = Table(capacity, DIM, "random_normal", name="table")
            rows = lookup(table, tf.range(700), True)
            session.run(table.initializer)
            exported.append([session.run(rows), *session.run(table.export())])
    for expected, actual in zip(*exported):
        np.testing.assert_array_equal(actual, expected)


def test_stock_reads_see_the_rows_that_there_are(run):
    table = Table(None, DIM, "ones", name="table")
    slot = slot_for(table, Optimizer(), "slot", fill=2.0)
    assert table.shape.as_list() == slot.shape.as_list() == [None, DIM]
    num_keys = 300
    run(lambda keys: lookup(table, keys, True), np.arange(num_keys))
    rows, fills = run(lambda: (table.value(), slot.read_value()))
    assert num_keys <= len(rows) == len(fills) < 1 << 16
    assert (rows[:num_keys] == 1).all() and (rows[num_keys:] == 0).all()
    assert (fills[:num_keys] == 2).all()
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not in|out of"):
        run(
            lambda row_ids: tf.raw_ops.ResourceGather(
                resource=table.handle, indices=row_ids, dtype=tf.float32
            ),
            np.array([len(rows)]),
        )


def test_a_slot_that_comes_late_has_the_rows_there_are(run):
    table = Table(None, DIM, "ones", name="table")
    run(lambda keys: lookup(table, keys, True), np.arange(700))
    slots = [slot_for(table, Optimizer(), str(n), width=n, fill=3.0) for n in (1, DIM, 2 * DIM)]
    shapes = [len(run(plane.read_value)) for plane in (table, *slots)]
    assert len(set(shapes)) == 1 and shapes[0] >= 700
    for slot in slots:
        assert (run(slot.read_value)[:700] == 3).all()


@pytest.mark.parametrize("arguments, message", [
    (dict(use_hash_index=False), "without a hash index needs a capacity"),
    (dict(initializer=tf.constant_initializer(np.ones([4, 3]))), "makes all rows at once"),
    (dict(initializer="lecun_normal"), "depends on the number of rows: the table needs a capacity"),
    (dict(capacity=(1 << 32) - 1), "4294967295 is reserved: use a smaller one, or None"),
])  # fmt: skip
def test_what_needs_a_capacity(arguments, message):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=message):
        Table(**{"capacity": None, "dim": 3, **arguments})


def test_threads_look_up_and_train_while_it_grows():
    with tf.Graph().as_default(), tf1.Session() as session:
        table = Table(None, DIM, "ones", name="table")
        slot = slot_for(table, Optimizer(), "slot")
        keys = tf1.placeholder(tf.int64, [None])
        loss = tf.reduce_sum(lookup(table, keys, True))
        gradient = tf.gradients(loss, [table])[0]
        update = sparse_momentum(table, slot, gradient, 1.0, 0.0)
        present = lookup(table, keys, False)
        session.run([table.initializer, slot.initializer])
        num_threads, num_steps, step_keys = 4, 12, 64
        failures = []

        def work(thread):
            try:
                for step in range(num_steps):
                    mine = np.arange(step_keys) + step_keys * (thread * num_steps + step)
                    session.run([loss, update], {keys: mine})
                    np.testing.assert_array_equal(session.run(present, {keys: mine}), 0)
                    session.run(present, {keys: np.arange(0, 4000, 7)})
            except Exception as error:  # noqa: BLE001  shown by the test
                failures.append(error)

        threads = [threading.Thread(target=work, args=[n]) for n in range(num_threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        exported, rows = session.run(table.export())
    assert sorted(exported) == list(range(num_threads * num_steps * step_keys))
    assert (rows == 0).all()


def test_initialized_again_while_steps_run():
    with tf.Graph().as_default(), tf1.Session() as session:
        table = Table(None, DIM, "ones", name="table")
        keys = np.arange(3000)
        rows = lookup(table, tf.constant(keys), True)
        total = tf.reduce_sum(rows)
        session.run(table.initializer)
        session.run(total)
        again = threading.Thread(target=lambda: [session.run(table.initializer) for _ in range(8)])
        again.start()
        while again.is_alive():
            session.run(total)
        again.join()
        assert session.run(total) == keys.size * DIM


def test_files(run, tmp_path):
    table = Table(None, DIM, "random_normal", name="table")
    keys = np.arange(700) * 3
    rows = run(lambda keys: lookup(table, keys, True), keys)
    run(lambda: checkpoint.dump_to_files(table, str(tmp_path)))
    run(lambda: checkpoint.set_rows(table, tf.ones([2000, DIM])))
    assert (run(table.export)[1] == np.ones([2000, DIM])).all()
    run(lambda: checkpoint.restore_from_files(table, str(tmp_path)))
    assert run(table.num_keys) == 700
    np.testing.assert_array_equal(run(lambda keys: lookup(table, keys, False), keys), rows)


def test_files_of_another_table_need_more_room(run, tmp_path):
    large = Table(CAPACITY, DIM, "ones", name="table")
    run(lambda keys: lookup(large, keys, True), np.arange(1500))
    run(lambda: checkpoint.dump_to_files(large, str(tmp_path)))
    small = Table(None, DIM, "zeros", name="other")
    slot = slot_for(small, Optimizer(), "slot", fill=2.0)
    small.table_name = "table"  # the files' name
    run(lambda keys: lookup(small, keys, True), np.arange(3))
    run(lambda: checkpoint.restore_from_files(small, str(tmp_path)))
    assert (run(lambda keys: lookup(small, keys, False), np.arange(1500)) == 1).all()
    assert (run(slot.read_value)[:1500] == 2).all()


@pytest.mark.parametrize("capacity", [None, CAPACITY])
def test_tf_saver(tmp_path, capacity):
    checkpoint.save_tables_in_checkpoints()
    path = str(tmp_path / "model")
    keys = np.arange(700)

    def build(capacity):
        table = Table(capacity, DIM, "random_normal", name="table")
        slot = slot_for(table, "optimizer", "slot", width=3, fill=0.25)
        return table, slot, lookup(table, tf.constant(keys), True), tf1.train.Saver()

    with tf.Graph().as_default(), tf1.Session() as session:
        _, _, rows, saver = build(None)
        session.run(tf1.global_variables_initializer())
        saved = session.run(rows)
        saver.save(session, path)
    with tf.Graph().as_default(), tf1.Session() as session:
        table, slot, rows, saver = build(capacity)
        saver.restore(session, path)
        assert session.run(table.num_keys()) == 700
        np.testing.assert_array_equal(session.run(rows), saved)
        np.testing.assert_array_equal(session.run(slot)[:700], np.full([700, 3], 0.25))


@pytest.mark.thorough
def test_hundreds_of_tables_in_a_process():
    printed = run_python(
        """
        import resource
        import numpy as np
        import tensorflow as tf
        from sok_compat.tables import Table
        from sok_compat.tables.rows.row_generations import rows_of_gradient
        from sok_compat.tables.slots.registry import slot_for
        from tests.support.lookups import lookup

        NUM_TABLES, DIM = 500, 64
        keys = np.arange(5)
        tables = [Table(None, DIM, "ones") for _ in range(NUM_TABLES)]

        def resident_bytes():
            with open("/proc/self/statm") as statm:
                return int(statm.read().split()[1]) * resource.getpagesize()

        before = resident_bytes()
        for table in tables:
            slots = [slot_for(table, "optimizer", name) for name in ("m", "v")]
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(lookup(table, tf.constant(keys), True) ** 2)
            gradient = rows_of_gradient(table, tape.gradient(loss, table))
            for slot in slots:
                tf.raw_ops.ResourceSparseApplyMomentum(
                    var=table.handle, accum=slot.handle, lr=0.25, grad=gradient.values,
                    indices=gradient.indices, momentum=0.0,
                )
        taken = resident_bytes() - before
        assert all((table.export()[1].numpy() == 0).all() for table in tables)
        print(taken // NUM_TABLES)
        """
    )
    assert int(printed.splitlines()[-1]) < 256 << 10  # bytes for each table
