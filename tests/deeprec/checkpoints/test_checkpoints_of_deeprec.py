# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that DeepRec has written; those that do not fit leave a variable as it was."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.deeprec.optimizer_rules import train_optimizers as optimizers
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from tests.support.deeprec.deeprec_files import starts, tensors_of, write_tensors

tf1 = tf.compat.v1
DIM = 2
InvalidArgument = tf.errors.InvalidArgumentError
KEYS = [0, 1, 2, 1000, 1001, 5, 2999, 7, -3, 2**31 - 1]
ROWS = {key: (float(key % 97), 0.5) for key in KEYS}
SLOT = {key: (0.25, float(key % 89)) for key in KEYS}


class Model:
    """An embedding variable 'v' that Adagrad trains, and a saver, in the default graph."""

    def __init__(self, num_parts=None, **options):
        partitioner = num_parts and tf1.fixed_size_partitioner(num_parts)
        found = get_embedding_variable("v", DIM, partitioner=partitioner, **options)
        self.found, self.parts = found, list(found) if num_parts else [found]
        self.ids = tf1.placeholder(tf.int64, [None])
        loss = tf.reduce_sum(found.sparse_read(self.ids))
        self.step = optimizers.AdagradOptimizer(0.1, 0.75).minimize(loss, var_list=self.parts)
        self.saver = tf1.train.Saver()
        self._held = [(p.export()[:2], p.slots[0].read_value()) for p in self.parts]

    def stored(self, session):
        """{key: row}, {key: accumulator}; a part has its own keys only."""
        rows, slots = {}, {}
        for number, ((keys, found), of_slot) in enumerate(session.run(self._held)):
            assert all(key % 1000 % len(self.parts) == number for key in keys)
            rows.update({key: tuple(row) for key, row in zip(keys, found)})
            slots.update({key: tuple(row) for key, row in zip(keys, of_slot)})
        return rows, slots


def of_deeprec(num_parts=None, key_dtype=np.int64, rows=None, slot=None, **options):
    """{name: value} of 'v' and its accumulators."""
    rows = ROWS if rows is None else rows
    slot = {key: SLOT[key] for key in rows} if slot is None else slot
    return {
        **tensors_of("v", rows, DIM, num_parts, key_dtype, **options),
        **tensors_of("v|/Adagrad", slot, DIM, num_parts, key_dtype, **options),
    }


def without(tensors, *ends):
    return {name: value for name, value in tensors.items() if not name.endswith(ends)}


RECORDED = {key: (key + 1, 3) for key in KEYS}
FILES = {
    "plain": lambda parts: of_deeprec(parts),
    "int32": lambda parts: of_deeprec(parts, np.int32),
    "recorded": lambda parts: of_deeprec(parts, recorded=RECORDED, filtered={8: (1, 1)}),
    "legacy": lambda parts: without(of_deeprec(parts), "offset"),
    "bare": lambda parts: without(
        of_deeprec(parts), "freqs", "versions", "filtered", "filter_offset"),
}  # fmt: skip


@pytest.mark.parametrize("restored", [None, 1, 3])
@pytest.mark.parametrize("saved", [None, 2, 7])
@pytest.mark.parametrize("kind", FILES)
def test_any_parts(tmp_path, kind, saved, restored):
    """Seven parts of few keys: some are empty."""
    path = str(tmp_path / "model")
    write_tensors(path, FILES[kind](saved))
    with tf.Graph().as_default(), tf1.Session() as session:
        model = Model(restored)
        model.saver.restore(session, path)
        assert model.stored(session) == (ROWS, SLOT)


ODD = {
    "an empty part without a slot": (
        {**of_deeprec(rows={0: ROWS[0], 2: ROWS[2]}, num_parts=2)},
        ("v/part_1/Adagrad-keys", "v/part_1/Adagrad-values", "v/part_1-values"),
    ),
    "offsets of another number": (
        {**of_deeprec(rows={0: ROWS[0], 2: ROWS[2]}),
         "v-partition_offset": starts([0, 2])[:101]}, (),
    ),
}  # fmt: skip


@pytest.mark.parametrize("restored", [None, 2])
@pytest.mark.parametrize("kind", ODD)
def test_odd_files(tmp_path, kind, restored):
    path, (tensors, missing) = str(tmp_path / "model"), ODD[kind]
    write_tensors(path, without(tensors, *missing) if missing else tensors)
    with tf.Graph().as_default(), tf1.Session() as session:
        model = Model(restored)
        model.saver.restore(session, path)
        assert model.stored(session) == tuple({k: x[k] for k in (0, 2)} for x in (ROWS, SLOT))


@pytest.mark.parametrize("restored", [None, 2])
def test_keys_of_a_slot_are_others(tmp_path, restored):
    """Written while steps ran: keys that the slot misses start as new ones there."""
    path = str(tmp_path / "model")
    slot = {key: SLOT[key] for key in (5, 2, 0)}
    write_tensors(path, of_deeprec(3, slot={**slot, 4: (9.0, 9.0)}))
    with tf.Graph().as_default(), tf1.Session() as session:
        model = Model(restored)
        model.saver.restore(session, path)
        rows, slots = model.stored(session)
    assert rows == ROWS and slots == {key: slot.get(key, (0.75, 0.75)) for key in KEYS}


def test_foreign_keys_of_a_part_are_passed_over(tmp_path):
    path = str(tmp_path / "model")
    parts = of_deeprec(rows={0: ROWS[0], 1: ROWS[1]})
    write_tensors(path, {f"v/part_0{name[1:]}": value for name, value in parts.items()})
    with tf.Graph().as_default(), tf1.Session() as session:
        model = Model(2)
        model.saver.restore(session, path)
        rows, _ = model.stored(session)
    assert rows == {0: ROWS[0], 1: ROWS[1]}


FIRST = {
    "constant": tf1.constant_initializer(7.0),
    "one row": [7.0, 8.0],
    "seeded": tf1.random_uniform_initializer(seed=3),
}


@pytest.mark.parametrize("restored", [None, 3])
@pytest.mark.parametrize("initializer", FIRST.values(), ids=FIRST)
@pytest.mark.parametrize("dims", [(1, 1), (5, 5), (2, 1), (1, 2)], ids=str)
def test_rows_of_another_width(tmp_path, monkeypatch, dims, initializer, restored):
    """The columns that both have are restored; what is new starts as in a new key's row."""
    monkeypatch.setenv("TF_EV_RESTORE_CUSTOM_DIM", "True")
    path, (dim, slot_dim) = str(tmp_path / "model"), dims
    rows = {key: tuple(key % 97 + i for i in range(dim)) for key in KEYS}
    slots = {key: tuple(key % 89 + i for i in range(slot_dim)) for key in KEYS}
    of_slots = tensors_of("v|/Adagrad", slots, slot_dim, 2)
    default_rows = {"v/default_rows": np.ones([4096, dim], np.float32)} if dim != DIM else {}
    write_tensors(path, {**tensors_of("v", rows, dim, 2), **of_slots, **default_rows})
    with tf.Graph().as_default(), tf1.Session() as session:
        model = Model(restored, initializer=initializer)
        model.saver.restore(session, path)
        with tf.Graph().as_default():
            other = Model(initializer=initializer)
            with tf1.Session() as untrained:
                untrained.run(tf1.global_variables_initializer())
                first = dict(zip(KEYS, untrained.run(other.found.sparse_read(KEYS))))
        found_rows, found_slots = model.stored(session)
    assert found_rows == {key: (*rows[key], *first[key][dim:])[:DIM] for key in KEYS}
    assert found_slots == {key: (*slots[key], 0.75)[:DIM] for key in KEYS}


def test_columns_that_rows_of_two_bytes_lack(tmp_path, monkeypatch):
    """They keep the bits of a new key's row, of float32 here."""
    monkeypatch.setenv("TF_EV_RESTORE_CUSTOM_DIM", "True")
    path = str(tmp_path / "model")
    rows = {key: (key % 97,) for key in KEYS}
    slots = tensors_of("v|/Adagrad", {key: (key % 89,) for key in KEYS}, 1, 2)
    of_rows = {
        name: value.astype(tf.bfloat16.as_numpy_dtype) if name.endswith("-values") else value
        for name, value in tensors_of("v", rows, 1, 2).items()
    }
    default_rows = {"v/default_rows": np.ones([4096, 1], np.float32)}
    write_tensors(path, {**of_rows, **slots, **default_rows})
    with tf.Graph().as_default(), tf1.Session() as session:
        model = Model(initializer=tf1.constant_initializer(0.3))
        model.saver.restore(session, path)
        found, _ = model.stored(session)
    assert found == {key: (key % 97, *[np.float32(0.3)] * (DIM - 1)) for key in KEYS}


@pytest.mark.parametrize("restored", [None, 2])
def test_scalars_of_adam_async(tmp_path, restored):
    """DeepRec has them in vectors beside an embedding variable."""
    path = str(tmp_path / "model")
    planes = ("v", "v|/AdamAsync", "v|/AdamAsync_1")
    tensors = {k: x for name in planes for k, x in tensors_of(name, ROWS, DIM, 3).items()}
    powers = {f"v/part_{i}/AdamAsync_{j}": [j / 8.0] for i in range(3) for j in (2, 3)}
    write_tensors(path, {**tensors, **{k: np.float32(x) for k, x in powers.items()}})
    with tf.Graph().as_default(), tf1.Session() as session:
        partitioner = restored and tf1.fixed_size_partitioner(restored)
        variable = get_embedding_variable("v", DIM, partitioner=partitioner)
        parts = list(variable) if restored else [variable]
        optimizer = optimizers.AdamAsyncOptimizer()
        optimizer.minimize(tf.reduce_sum(variable.sparse_read([1])), var_list=parts)
        tf1.train.Saver().restore(session, path)
        for part in parts:
            found = [optimizer.get_slot(part, f"beta{i}_power") for i in (1, 2)]
            assert session.run(found) == [0.25, 0.375]


def test_a_small_table_of_small_keys(tmp_path):
    path = str(tmp_path / "model")
    write_tensors(path, of_deeprec())
    with tf.Graph().as_default(), tf1.Session() as session:
        model = Model(key_dtype=tf.int32)
        model.saver.restore(session, path)
        assert model.stored(session) == (ROWS, SLOT)


def replaced(**tensors):
    return {**of_deeprec(), **{name.replace("_", "-", 1): x for name, x in tensors.items()}}


BAD = {
    "no variable": ({"w": np.zeros(1)}, tf.errors.NotFoundError, "neither v-keys nor v/part"),
    "no slot": (tensors_of("v", ROWS, DIM), tf.errors.NotFoundError, "no tensor v/Adagrad-keys"),
    "no values": (without(of_deeprec(), "v-values"), tf.errors.NotFoundError, "v-values"),
    "other dim": (
        {**of_deeprec(), **tensors_of("v", {key: (1.0,) * 5 for key in KEYS}, 5)},
        InvalidArgument, "v-values.*rows of 5 floats.*have 2.*TF_EV_RESTORE_CUSTOM_DIM=True"),
    "other dim of a slot": (
        {**of_deeprec(), **tensors_of("v/Adagrad", {key: (1.0,) for key in KEYS}, 1)},
        InvalidArgument, "v/Adagrad-values.*rows of 1 floats"),
    "rows": (replaced(v_values=np.zeros([3, DIM], np.float32)), InvalidArgument, "3,2.*10 keys"),
    "dtype": (replaced(v_values=np.zeros([10, DIM], np.float64)), InvalidArgument, "float64.*t32"),
    "keys": (replaced(v_keys=np.zeros([10, 1], np.int64)), InvalidArgument, "v-keys.*one dim"),
    "twice": (replaced(v_keys=np.zeros([10], np.int64)), InvalidArgument, "key 0 appears twice"),
    "freqs": (replaced(v_freqs=np.zeros([4], np.int64)), InvalidArgument, "v-freqs.*4 numbers"),
    "freqs in a row": (
        replaced(v_freqs=np.zeros([1, 10], np.int64)), InvalidArgument, r"v-freqs.*\[1,10\].*vec"),
    "dtypes": (
        {**of_deeprec(2), "v/part_1-values": np.zeros([7, DIM], np.float16)},
        InvalidArgument, "part_1-values.*float16.*before it float32.*one dtype"),
}  # fmt: skip


@pytest.mark.parametrize("tensors, error, message", BAD.values(), ids=BAD)
def test_what_does_not_fit(tmp_path, tensors, error, message):
    path = str(tmp_path / "model")
    write_tensors(path, tensors)
    with tf.Graph().as_default(), tf1.Session() as session:
        model = Model()
        session.run(tf1.global_variables_initializer())
        session.run(model.step, {model.ids: [3, 4]})
        before = model.stored(session)
        with pytest.raises(error, match=message):
            model.saver.restore(session, path)
        assert model.stored(session) == before and set(before[0]) == {3, 4}


def test_keys_that_are_too_large(tmp_path):
    path = str(tmp_path / "model")
    write_tensors(path, of_deeprec(rows={2**40: (1.0, 1.0)}, slot={2**40: (1.0, 1.0)}))
    with tf.Graph().as_default(), tf1.Session() as session:
        model = Model(key_dtype=tf.int32)
        with pytest.raises(InvalidArgument, match=f"key {2**40} to restore is not an int32"):
            model.saver.restore(session, path)


def test_no_checkpoint(tmp_path):
    with tf.Graph().as_default(), tf1.Session() as session:
        model = Model()
        with pytest.raises(ValueError, match="not a valid checkpoint"):
            model.saver.restore(session, str(tmp_path / "nothing"))


def test_decays_that_are_not_saved(tmp_path):
    """DeepRec counts them elsewhere: as many as are due are taken for done."""
    path, slot = str(tmp_path / "model"), {key: (4.0, 8.0) for key in KEYS}
    planes = ("v", ROWS), ("v/AdagradDecay", slot), ("v/AdagradDecay_1", slot)
    tensors = {k: x for name, rows in planes for k, x in tensors_of(name, rows, DIM).items()}
    write_tensors(path, {**tensors, "global_step": np.int64(5)})
    with tf.Graph().as_default(), tf1.Session() as session:
        variable, count = get_embedding_variable("v", DIM), tf1.train.get_or_create_global_step()
        optimizer = optimizers.AdagradDecayOptimizer(0.1, count, 0.1, 2, 0.5)
        loss = tf.reduce_sum(variable.sparse_read([0]))
        step = optimizer.minimize(loss, count, var_list=[variable])
        read = variable.export()[0], variable.slots[0].read_value()
        session.run(tf1.global_variables_initializer())
        tf1.train.Saver().restore(session, path)
        for touched, others in [((3, 5), (2, 4)), ((4, 6), (2, 4))]:  # the sixth step decays
            session.run(step)
            accumulators = {key: tuple(row) for key, row in zip(*session.run(read))}
            assert accumulators == {**dict.fromkeys(KEYS, others), 0: touched}
