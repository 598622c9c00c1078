# SPDX-License-Identifier: Apache-2.0
"""Variables of SparseOperationKit 2 on one process; test_ranks.py has several."""

import importlib

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.runtime.tf_versions import keras_of_layers as keras
from sok_compat.sparse_operation_kit.variables import options
from tests.support.sessions import initialized_session

ROWS = np.arange(10.0, dtype=np.float32).reshape(5, 2)


def contents(sok, variable):
    """{key: row}"""
    keys, rows = sok.export(variable)
    return dict(zip(keys.numpy().tolist(), rows.numpy().tolist()))


def test_init(sok):
    sok.init("horovod", use_legacy_optimizer=False)  # once more, as in a notebook
    with pytest.raises(RuntimeError, match="comm_tool must be 'horovod', got 'mpi'"):
        sok.init("mpi")
    optimizers = tf.keras.optimizers
    assert optimizers.SGD is not optimizers.legacy.SGD  # nothing is replaced


def test_calls_before_init(sok, monkeypatch):
    """One process alone does without it; several ranks do not."""
    monkeypatch.setattr(sok.communication, "_comm_tool", None)
    ids = tf.ragged.constant([[4, 1]], tf.int64)
    for variable, row in ((sok.DynamicVariable(2, "ones"), [2, 2]), (sok.Variable(ROWS), [10, 12])):
        assert variable.num_gpus == 1
        found = sok.lookup_sparse(variable, ids, combiners="sum")
        np.testing.assert_array_equal(found, [row])
    assert (sok.communication.rank(), sok.communication.num_ranks()) == (0, 1)
    monkeypatch.setattr(sok.communication, "launched_size", lambda: 2)
    for call in (
        lambda: sok.DynamicVariable(3),
        lambda: sok.Variable(ROWS),
        sok.communication.rank,
        lambda: sok.communication.allreduce(1.0),
        lambda: sok.lookup_sparse(tf.Variable(ROWS), tf.ragged.constant([[0]])),
        lambda: sok.lookup.group_lookup([tf.Variable(ROWS)], [[0]]),
        lambda: sok.raw_ops.dummy_var_handle(shape=[None, 3]),
    ):
        with pytest.raises(RuntimeError, match=r"needs sok.init: call sok.init\(\) first"):
            call()


def test_an_array_on_one_process_is_not_copied_for_restores(sok):
    variable = sok.Variable(tf.constant(ROWS))
    tensors = variable.initial_rows, variable.first_value.whole_table([5, 2])
    ours, given = (np.asarray(memoryview(tensor)).ctypes.data for tensor in tensors)
    assert ours == given


def test_communication_of_one_process(sok):
    tool = sok.communication
    names = ("rank", "local_rank", "id_in_rank", "global_gpu_id")
    assert [getattr(tool, name)() for name in names] == [0] * 4
    assert tool.num_ranks() == tool.num_gpus() == tool.num_gpu_per_rank() == 1
    received, splits = tool.alltoall([5, 6], [2])
    assert received.numpy().tolist() == [5, 6] and splits.numpy().tolist() == [2]
    for op in ("sum", "average", "max", "min"):
        assert tool.allreduce([5.0], op).numpy() == 5
    with pytest.raises(RuntimeError, match="op must be one of"):
        tool.allreduce([5.0], "product")
    assert tool.allgather([5]).numpy() == tool.broadcast([5], 0).numpy() == 5


@pytest.mark.parametrize("mode", [None, "distributed", "localized:0"])
def test_static_variable_from_a_value(sok, mode):
    variable = sok.Variable(ROWS.tolist(), mode=mode, name="given")
    kind = sok.LocalizedVariable if mode == "localized:0" else sok.DistributedVariable
    assert isinstance(variable, kind) and variable.name == "given:0"
    assert variable.mode == (mode or "distributed") and variable.global_shape == [5, 2]
    np.testing.assert_array_equal(variable.value(), ROWS)
    np.testing.assert_array_equal(tf.nn.embedding_lookup(variable, [[4], [0]]), ROWS[[[4], [0]]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="key 5 is outside of its range"):
        tf.nn.embedding_lookup(variable, [5])
    sok.assign(variable, [3], [[7, 8]])
    assert variable.value()[3].numpy().tolist() == [7, 8]
    assert sok.export(variable) is None


def test_static_variable_from_an_initializer(sok):
    made = sok.Variable(shape=(200, 50), initializer="glorot_uniform", seed=3)
    again = sok.Variable(shape=(200, 50), initializer="glorot_uniform", seed=3)
    limit = np.sqrt(6 / 250)
    assert 0.99 * limit < np.abs(made.value()).max() <= limit
    assert not np.array_equal(made.value(), again.value())  # names differ
    ordered = sok.Variable(
        shape=(3, 2), initializer=lambda shape, dtype: tf.reshape(tf.range(6.0), shape)
    )
    assert ordered.value().numpy().tolist() == [[0, 1], [2, 3], [4, 5]]
    assert made.name.startswith("sok_static_Variable_")


@pytest.mark.parametrize("arguments, error, message", [
    ({}, ValueError, "either initial_value or shape with initializer, got neither"),
    ({"initial_value": ROWS, "shape": (5, 2)}, ValueError, "got both"),
    ({"initial_value": [1.0, 2.0]}, ValueError, r"must have the shape \(rows, dim\), got \(2,\)"),
    ({"shape": (None, 2)}, ValueError, r"got \(None, 2\)"),
    ({"shape": (0, 2)}, ValueError, "must be at least 1"),
    ({"initial_value": ROWS, "dtype": tf.float64}, ValueError, "must be one of float32"),
    ({"initial_value": ROWS, "max_capacity": 8}, TypeError, "no argument 'max_capacity': it takes"),
    ({"initial_value": ROWS, "constraint": abs}, NotImplementedError, "takes no constraint"),
    ({"initial_value": ROWS, "mode": "localized"}, RuntimeError, "mode must be 'distributed' or"),
    ({"initial_value": ROWS, "mode": "localized:1"}, RuntimeError, "number of ranks, 1, got 1"),
])  # fmt: skip
def test_bad_static_variables(sok, arguments, error, message):
    with pytest.raises(error, match=message):
        sok.Variable(**arguments)


def test_positional_arguments_of_static_variables(sok):
    variable = sok.Variable(ROWS, False, True, None, "given", None, tf.float32)
    assert variable.name == "given:0" and not variable.trainable
    with pytest.raises(TypeError, match="takes from 0 to 7 positional arguments"):
        sok.Variable(ROWS, False, True, None, "given", None, tf.float32, None)


@pytest.mark.parametrize("key_type", [tf.int64, tf.int32])
@pytest.mark.parametrize("var_type", ["hbm", "hybrid"])
def test_dynamic_variable_grows_with_any_key(sok, var_type, key_type):
    variable = sok.DynamicVariable(3, "13", var_type, key_type=key_type)
    keys = [key_type.max, key_type.min, -1, 0, 7]
    assert variable.size.numpy().tolist() == [0, 3] and variable.shape.as_list() == [None, 3]
    rows = tf.nn.embedding_lookup(variable, tf.constant([keys], key_type))
    np.testing.assert_array_equal(rows, np.full([1, 5, 3], 13))
    assert sok.all2all_dense_embedding(variable, [-5]).shape == [1, 3]
    assert sok.all2all_dense_embedding(variable, tf.constant(-5, tf.int64)).shape == [3]
    sok.assign(variable, tf.constant([7, 8], key_type), [[1, 2, 3], [4, 5, 6]])
    exported, _ = sok.export(variable)
    assert exported.dtype == key_type and exported.numpy().tolist() == sorted([*keys, -5, 8])
    assert contents(sok, variable)[7] == [1, 2, 3] and contents(sok, variable)[8] == [4, 5, 6]
    assert contents(sok, variable)[-1] == [13, 13, 13]
    assert variable.size.numpy().tolist() == [7, 3]


OF_WIDE_KEYS = {
    "lookup_sparse": lambda sok, v, ids: sok.lookup_sparse(
        v, tf.RaggedTensor.from_tensor(ids[:, tf.newaxis]), combiners="sum"
    ),
    "embedding_lookup": lambda sok, v, ids: tf.nn.embedding_lookup(v, ids),
    "all2all": lambda sok, v, ids: sok.all2all_dense_embedding(v, ids),
    "assign": lambda sok, v, ids: sok.assign(v, ids, tf.zeros([2, 3])),
}


@pytest.mark.parametrize("call", OF_WIDE_KEYS.values(), ids=OF_WIDE_KEYS)
@pytest.mark.parametrize("in_function", [False, True])
def test_keys_that_do_not_fit_in_int32(sok, call, in_function):
    variable = sok.DynamicVariable(3, "13", key_type=tf.int32, name="narrow")

    def run(ids):
        call(sok, variable, ids)

    run = tf.function(run) if in_function else run
    run(tf.constant([-(2**31), 2**31 - 1], tf.int64))
    for wide in (-(2**31) - 1, 2**31, 2**33 + 7):
        with pytest.raises(tf.errors.InvalidArgumentError, match="keys of .*narrow.* fit in int32"):
            run(tf.constant([1, wide], tf.int64))
    assert set(contents(sok, variable)) == {-(2**31), 2**31 - 1}


def test_properties_of_a_dynamic_variable(sok):
    variable = sok.DynamicVariable(
        dimension=4, var_type="hybrid", init_capacity=1000, max_capacity=1200, filter_ratio=0.5
    )
    assert (variable.dimension, variable.key_type, variable.handle_dtype) == (
        4,
        tf.int64,
        tf.float32,
    )
    assert (variable.backend_type, variable.mode, variable.num_gpus) == ("hybrid", "distributed", 1)
    assert (variable.target_gpu, variable.indices, variable.initializer_str) == (-1, None, "")
    config = variable.config_dict
    assert (config["init_capacity"], config["max_capacity"]) == (1024, 2048)  # rounded up
    assert config["evict_strategy"] == "kLru" and config["filter_ratio"] == 0.5
    assert sok.DynamicVariable(4).backend_type == "hybrid"
    assert variable.name.startswith("sok_dynamic_Variable_")


@pytest.mark.parametrize("initializer, var_type, mean, deviation, least, most", [
    (None, "hbm", 0, 0.1 / 12**0.5, -0.05, 0.05),
    ("random", "hybrid", 0, 1, -9, 9),
    ("", None, 0, 1, -9, 9),
    ("normal", "hbm", 0, 1, -9, 9),
    ("uniform", "hybrid", 0.5, 1 / 12**0.5, 0, 1),
    ("ones", "hbm", 1, 0, 1, 1),
    ("zeros", "hybrid", 0, 0, 0, 0),
    ("-2.5", "hbm", -2.5, 0, -2.5, -2.5),
    (3, "hbm", 3, 0, 3, 3),
    (tf.keras.initializers.RandomUniform(2, 4), "hybrid", 3, 2 / 12**0.5, 2, 4),
    ("he_normal_is_refused", None, None, None, None, None),
    ('random {"mean": 2, "stddev": 0.0025}', "hbm", 2, 0.0025, 1.9, 2.1),
    ('random {"stddev": 0.5}', "hybrid", 0, 0.5, -3, 3),
    ('random {"deviation": 1}', None, None, None, None, None),
    ("random {1", None, None, None, None, None),
    (tf.keras.initializers.Identity(), None, None, None, None, None),
    (lambda shape, dtype: tf.fill(shape, 6.0), "hbm", 6, 0, 6, 6),
])  # fmt: skip
def test_first_values(sok, initializer, var_type, mean, deviation, least, most):
    if mean is None:
        with pytest.raises(
            ValueError, match="initializer of a sok.DynamicVariable .*(must be|once)"
        ):
            sok.DynamicVariable(8, initializer, var_type)
        return
    variable = sok.DynamicVariable(8, initializer, var_type)
    rows = tf.nn.embedding_lookup(variable, tf.range(1000)).numpy()
    assert abs(rows.mean() - mean) < 0.05 and abs(rows.std() - deviation) < 0.05
    assert rows.min() >= least and rows.max() <= most


@pytest.mark.parametrize("initializer", ["glorot_uniform", tf.keras.initializers.HeNormal(seed=3)])
def test_first_values_by_the_number_of_rows(sok, initializer):
    """As of a table of init_capacity rows."""
    variable = sok.DynamicVariable(8, initializer, init_capacity=1000)
    rows = tf.nn.embedding_lookup(variable, tf.range(1000)).numpy()
    variance = 2 / 1032 if initializer == "glorot_uniform" else 2 / 1024
    assert abs(rows.std() / variance**0.5 - 1) < 0.05


def test_first_values_by_a_variable_and_by_seeds(sok):
    given = tf.Variable([[4.0, 9.0]])
    filled = sok.DynamicVariable(2, given)
    given.assign([[5.0, 9.0]])  # keys start as it is when they come
    assert tf.nn.embedding_lookup(filled, [1]).numpy().tolist() == [[5, 5]]

    def row(**seed):
        tf.keras.backend.clear_session()
        return tf.nn.embedding_lookup(sok.DynamicVariable(2, name="seeded", **seed), [1]).numpy()

    assert (row(seed=3) == row(seed=3)).all() and (row(seed=3) != row(seed=4)).all()
    tf.random.set_seed(3)
    try:
        assert (row() == row(seed=3)).all()
    finally:
        tf.random.set_seed(None)


@pytest.mark.parametrize("arguments, error, message", [
    ({"var_type": "hkv"}, ValueError, "var_type must be one of .* got 'hkv'"),
    ({"key_type": tf.uint32}, ValueError, "key_type must be int64 or int32"),
    ({"dtype": tf.float64}, ValueError, "must be one of float32"),
    ({"mode": "distribute"}, RuntimeError, "mode must be"),
    ({"mode": 0}, RuntimeError, "mode must be 'distributed' or 'localized:<rank>', got 0"),
    ({"mode": "localized:3"}, RuntimeError, "needs a rank below the number of ranks, 1, got 3"),
    ({"capacity": 5}, TypeError, "has no argument 'capacity': did you mean 'max_capacity'"),
    ({"max_capacity": 0}, ValueError, "max_capacity must be an int from 1 to 2.*62, got 0"),
    ({"max_capacity": 1e6}, ValueError, "max_capacity must be an int"),
    ({"init_capacity": 2**70}, ValueError, "init_capacity must be an int from 1 to"),
    ({"max_load_factor": "half"}, ValueError, "max_load_factor must be a number, got 'half'"),
    ({"filter_ratio": float("nan")}, ValueError, r"filter_ratio must be in \[0, 1\], got nan"),
    ({"init_capacity": 2000, "max_capacity": 1000}, ValueError, "init_capacity must be at most"),
    ({"evict_strategy": "kLfu"}, ValueError, "evict_strategy must be one of"),
    ({"filter_ratio": 1.5}, ValueError, r"filter_ratio must be in \[0, 1\], got 1.5"),
    ({"constraint": abs}, NotImplementedError, "takes no constraint"),
    ({"dimension": 0}, ValueError, "dim must be an int >= 1"),
])  # fmt: skip
def test_bad_dynamic_variables(sok, arguments, error, message):
    with pytest.raises(error, match=message):
        sok.DynamicVariable(**{"dimension": 3, **arguments})


def test_customized_eviction_warns_once(sok, caplog):
    options._warn_of_customized.cache_clear()
    for _ in range(2):
        variable = sok.DynamicVariable(2, evict_strategy="kCustomized", max_capacity=2)
    assert [record.message for record in caplog.records] == [
        "evict_strategy='kCustomized' evicts the least recently used keys, as 'kLru' does: lookups "
        "have no scores"
    ]
    gone = [sok.sparse_read_and_evict(variable, [key])[1].numpy().tolist() for key in (5, 3, 5, 9)]
    assert gone == [[], [], [], [3]]


def test_modules_of_the_earlier_name(sok):
    """As libraries import them."""
    from sparse_operation_kit.experiment import raw_ops, utils
    from sparse_operation_kit.experiment.communication import num_gpus
    from sparse_operation_kit.experiment.lookup import lookup_sparse

    assert (raw_ops, utils) == (sok.raw_ops, sok.utils)
    assert (num_gpus, lookup_sparse) == (sok.communication.num_gpus, sok.lookup_sparse)
    for path in ("sparse_operation_kit", "sok_compat.sparse_operation_kit"):
        assert importlib.import_module(f"{path}.experiment.dump_load") is sok.dump_load
        with pytest.raises(ModuleNotFoundError, match="experiment.nothing"):
            importlib.import_module(f"{path}.experiment.nothing")


def test_bad_assignments_change_nothing(sok):
    variable = sok.DynamicVariable(2, "zeros")
    for indices, values, error in (
        ([1.0], [[1, 2]], TypeError),
        ([1, 2], [[1, 2]], ValueError),
        ([1], [[1, 2, 3]], ValueError),
        ([[1]], [[1, 2]], ValueError),
    ):
        with pytest.raises(error):
            sok.assign(variable, indices, values)
    with pytest.raises(TypeError, match="needs a variable of sok, got ResourceVariable"):
        sok.assign(tf.Variable(ROWS), [1], [[1, 2]])
    with pytest.raises(TypeError, match="must be integers, got float32"):
        tf.nn.embedding_lookup(variable, [1.0])
    assert contents(sok, variable) == {}


def test_nanoseconds_of_a_time(sok):
    assert sok.utils.get_nano_time("2001-09-09 01:46:40") == 10**18
    for wrong in ("2001-09-09 01:46:40+02:00", "1969-12-31 00:00:00", "yesterday"):
        with pytest.raises(ValueError, match="datetime_str must be|Invalid isoformat"):
            sok.utils.get_nano_time(wrong)


def test_static_mode_is_left_to_the_wrapper(sok):
    variable = sok.DynamicVariable(2)
    for call in (lambda: variable.to_static([1]), variable.to_dynamic):
        with pytest.raises(NotImplementedError, match="wrap the optimizer in sok.OptimizerWrapper"):
            call()
    with pytest.raises(NotImplementedError, match="set_shape is not defined for the table"):
        variable.set_shape([3, 2])
    with pytest.raises(NotImplementedError, match="lookup_sparse or tf.nn.embedding_lookup$"):
        tf.gather_nd(variable, [[1]])


def test_filter_variables(sok):
    mixed = [tf.Variable(1.0), sok.DynamicVariable(2), sok.Variable(ROWS)]
    ours, others = sok.filter_variables(mixed)
    assert [id(each) for each in ours] == [id(each) for each in mixed[1:]]
    assert others[0] is mixed[0] and len(others) == 1


def test_in_a_graph(sok):
    with tf.Graph().as_default():
        dynamic = sok.DynamicVariable(2, "7", name="dynamic")
        static = sok.Variable(ROWS, mode="localized:0")
        read = tf.nn.embedding_lookup(dynamic, [5, -6]), tf.nn.embedding_lookup(static, [4])
        assign = sok.assign(dynamic, [5], [[1.0, 2.0]])
        exported = sok.export(dynamic)
        trainable = tf.compat.v1.trainable_variables()
        assert [each.name for each in trainable][0] == "dynamic:0" and len(trainable) == 2
        with initialized_session() as session:
            assert session.run(read)[0].tolist() == [[7, 7], [7, 7]]
            session.run(assign)
            keys, rows = session.run(exported)
            assert keys.tolist() == [-6, 5] and rows.tolist() == [[7, 7], [1, 2]]
            session.run(tf.compat.v1.global_variables_initializer())  # empties it
            assert session.run(dynamic.size).tolist() == [0, 2]
            assert session.run(read)[1].tolist() == ROWS[4:].tolist()


@pytest.mark.parametrize("kind", ["dump", "checkpoint"])
def test_restored_keys_that_do_not_fit_in_int32(sok, tmp_path, kind):
    wide = sok.DynamicVariable(3, "13", name="kept")
    narrow, fits = (sok.DynamicVariable(3, "1", key_type=tf.int32, name="kept") for _ in range(2))
    for each in (narrow, fits):
        each.dump_name = wide.dump_name
    for keys, folder in (([1, -5], tmp_path / "fits"), ([2**32 + 5], tmp_path / "wide")):
        sok.assign(wide, keys, tf.ones([len(keys), 3]))
        sok.dump(str(folder), wide)
        tf.train.Checkpoint(t=wide).write(str(folder / "c"))

    def restore(folder, variable):
        if kind == "dump":
            sok.load(str(tmp_path / folder), variable)
        else:
            tf.train.Checkpoint(t=variable).read(str(tmp_path / folder / "c"))

    sok.assign(narrow, [7], tf.ones([1, 3]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="key 4294967301 to restore is not an"):
        restore("wide", narrow)
    restore("fits", fits)
    assert [sok.export(each)[0].numpy().tolist() for each in (narrow, fits)] == [[7], [-5, 1]]


@pytest.mark.parametrize("key_type", [tf.int64, tf.int32])
def test_slots_by_key(sok, key_type):
    variable = sok.DynamicVariable(2, initializer="ones", key_type=key_type)
    optimizer = keras.optimizers.legacy.Adagrad(1.0, initial_accumulator_value=0.5)
    wrapper = sok.OptimizerWrapper(optimizer)
    with tf.GradientTape() as tape:
        rows = tf.nn.embedding_lookup(variable, tf.constant([7, -2, 7], key_type))
        loss = tf.reduce_sum(rows * [[1.0, 2.0]])
    wrapper.apply_gradients([(tape.gradient(loss, variable), variable)])
    slot = optimizer.get_slot(variable, "accumulator")
    keys, values = sok.export(slot)
    assert keys.numpy().tolist() == [-2, 7]
    np.testing.assert_allclose(values, [[1.5, 4.5], [4.5, 16.5]])
    sok.assign(slot, tf.constant([7], key_type), [[3.0, 4.0]])
    np.testing.assert_allclose(sok.export(slot)[1], [[1.5, 4.5], [3, 4]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="sok.assign of .*: a key has no row"):
        sok.assign(slot, [5], [[0.0, 0.0]])
    for rows in ([[1.0], [2.0]], [1.0, 2.0]):  # as many numbers as a row of 7 has
        with pytest.raises(ValueError, match=r"needs indices \[n\] and values \[n, 2\]"):
            sok.assign(slot, [7], rows)
    with pytest.raises(TypeError, match="must be integers, got float32"):
        sok.assign(slot, [7.5], [[0.0, 0.0]])
    np.testing.assert_allclose(sok.export(slot)[1], [[1.5, 4.5], [3, 4]])
