# SPDX-License-Identifier: Apache-2.0
"""Runs a case: every outcome is what the model says, or an error of the right kind that names
what is wrong."""

import collections
import re

import numpy as np
import tensorflow as tf

import sok_compat as sok
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.table_lookup import Lookup
from tests.fuzz import batches, values
from tests.fuzz.table_model import LEARNING_RATE, TableFull, TableModel

tf1 = tf.compat.v1

WRONG_ARGUMENT = (ValueError, TypeError)
WRONG_BATCH = (tf.errors.InvalidArgumentError,)
WRONG_FEED = (ValueError, TypeError, OverflowError)  # of NumPy and of TensorFlow's session
NO_ROOM = (tf.errors.ResourceExhaustedError,)

outcomes = collections.Counter()  # how often each kind of outcome was seen


def check(case):
    """Raises AssertionError where an outcome is not the right one."""
    with tf.Graph().as_default():
        sok.Init(global_batch_size=8, seed=5)
        if case.layer.wrong:
            _check_wrong_arguments(case.layer)
            return
        layer = _make_layer(case.layer)
        if case.wrong_call:
            _check_wrong_call(case, layer)
        _check_calls(case, layer)


def _make_layer(layer):
    kind = sok.DistributedEmbedding if layer.is_sparse else sok.All2AllDenseEmbedding
    return kind(**{name: values.made(value) for name, value in layer.arguments.items()})


def _check_wrong_arguments(layer):
    with _expecting(WRONG_ARGUMENT, "|".join(layer.wrong), "wrong argument"):
        _make_layer(layer)


def _check_wrong_call(case, layer):
    make, message = batches.wrong_calls_of(case.layer)[case.wrong_call]
    arguments = make(case.layer)
    with _expecting(WRONG_ARGUMENT, message, "wrong call"), tf.device(case.layer.device):
        layer(**arguments)


def _check_calls(case, layer):
    """All calls of the case in one session, beside the model."""
    sides = _Graph(case, layer)
    initialize = tf1.global_variables_initializer()
    # Without a GPU an op that is placed there runs on the CPU.
    with tf1.Session(config=tf1.ConfigProto(allow_soft_placement=True)) as session:
        session.run(initialize)
        model = TableModel(case.layer, lambda keys: sides.single_rows(session, keys))
        for number, call in enumerate(case.calls):
            _check_call(case.layer, call, sides, model, session, number)
            _check_table(case.layer, sides, model, session)


class _Graph:
    """The ops of the case's calls."""

    def __init__(self, case, layer):
        self._key_dtype = case.layer.key_dtype
        self.inputs = batches.placeholder(case.layer)
        self.weights = tf1.placeholder(tf.float32)
        table = layer.embedding_variable
        with tf.device(case.layer.device):
            inserted = layer(self.inputs)
            read = layer(self.inputs, training=case.training)
            loss = tf.reduce_sum(tf.cast(inserted, tf.float32) * self.weights)
            gradients = tf.gradients(loss, [table])
            optimizer = tf1.train.GradientDescentOptimizer(LEARNING_RATE)
            with sok.OptimizerScope([table]):
                train = optimizer.apply_gradients(zip(gradients, [table]))
        self.fetches = {"train": [inserted, train], "insert": [inserted], "read": [read]}
        self.num_keys = table.num_keys()
        self.exported = table.export()
        self._single_keys = tf1.placeholder(case.layer.key_dtype, [None])
        (self._single_rows,) = lookup_group([Lookup(table, self._single_keys)], insert=False)
        trainable = case.layer.arguments.get("trainable", True)
        assert (table in tf1.trainable_variables()) == trainable
        assert inserted.dtype == read.dtype == tf.as_dtype(case.layer.output_dtype)

    def single_rows(self, session, keys):
        """What the table gives for keys without inserting them."""
        return session.run(self._single_rows, {self._single_keys: np.array(keys, self._key_dtype)})


def _check_call(layer, call, sides, model, session, number):
    rng = np.random.default_rng(number)
    # Short enough for every output dtype, whose gradients are then exact.
    weights = rng.integers(-16, 17, [len(call.bags), layer.dim]) / np.float32(8)
    shape = _output_shape(layer, len(call.bags))
    fetches = sides.fetches[call.action]
    if call.fault:
        make, message = batches.FAULTS[call.fault]
        kinds = WRONG_FEED if call.fault in batches.FEED_FAULTS else WRONG_BATCH
        if call.fault in batches.UNEQUAL_LENGTHS:  # found out after the keys are in
            kinds, message = kinds + NO_ROOM, f"{message}|is full"
        with _expecting(kinds, message, "wrong batch"):
            session.run(fetches, {sides.inputs: make(layer, call.bags), sides.weights: 1.0})
        _take_in_keys_of_unequal_lengths(call, sides, model, session)
        return
    feed = {
        sides.inputs: batches.value(layer, call.bags),
        sides.weights: weights.reshape(shape),
    }
    try:
        expected = model.call(call.bags, call.action, weights)
    except TableFull:
        with _expecting(NO_ROOM, "is full.*max_vocabulary_size_per_gpu", "full table"):
            session.run(fetches, feed)
        return
    output = session.run(fetches, feed)[0]
    assert output.shape == shape, (output.shape, shape)
    _assert_close(output.astype(np.float64), expected.reshape(shape), layer.output_dtype)
    outcomes["right result"] += 1


def _take_in_keys_of_unequal_lengths(call, sides, model, session):
    """A batch with more or fewer keys than indices is refused when its keys may be in already."""
    if call.fault in batches.UNEQUAL_LENGTHS and session.run(sides.num_keys) > len(model.rows):
        model.call([[batches.FAULTY_KEY]], "insert", [None])


def _output_shape(layer, num_bags):
    if layer.is_sparse:
        return (num_bags // layer.slot_num, layer.slot_num, layer.dim)
    if layer.is_dynamic:
        return (num_bags, layer.dim)
    num_samples = num_bags // (layer.slot_num * layer.keys_per_slot)
    return (num_samples, layer.slot_num, layer.keys_per_slot, layer.dim)


def _check_table(layer, sides, model, session):
    """The table holds the keys and rows of the model, and no others."""
    assert session.run(sides.num_keys) == len(model.rows)
    if layer.use_hashtable:
        keys, rows = session.run(sides.exported)
        assert sorted(keys.tolist()) == sorted(model.rows)
    else:  # an export has all rows, which may be too many
        keys = np.array(sorted(model.rows), np.int64)
        rows = sides.single_rows(session, keys)
    expected = np.reshape([model.rows[key] for key in keys.tolist()], [-1, layer.dim])
    _assert_close(rows, expected, "float32")


def _assert_close(actual, expected, dtype):
    tolerance = values.DTYPES[dtype]
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


class _expecting:
    """Fails unless its body raises one of `kinds` with a message that matches `pattern`."""

    def __init__(self, kinds, pattern, outcome):
        self._kinds, self._pattern, self._outcome = kinds, pattern, outcome

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        wanted = f"{[kind.__name__ for kind in self._kinds]} that matches {self._pattern!r}"
        if error is None:
            raise AssertionError(f"nothing was raised; expected {wanted}")
        if not isinstance(error, self._kinds) or not re.search(self._pattern, str(error), re.S):
            raise AssertionError(f"{kind.__name__}: {error}; expected {wanted}") from error
        outcomes[self._outcome] += 1
        return True
