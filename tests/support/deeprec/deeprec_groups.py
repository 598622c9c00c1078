# SPDX-License-Identifier: Apache-2.0
"""Random groups of lookups in DeepRec's API, TensorFlow's own lookups of embedding variables, and
what TensorFlow makes of both on one process."""

import dataclasses
from typing import Optional

import numpy as np
import tensorflow as tf
from hypothesis import strategies as st

from sok_compat.deeprec.lookups import stock_lookups
from sok_compat.deeprec.lookups.group_lookup import (
    group_embedding_lookup,
    group_embedding_lookup_sparse,
)
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable

tf1 = tf.compat.v1
NUM_KEYS = 12
TOLERANCE = dict(rtol=1e-4, atol=1e-5)


BAGS = ((3, 3, 1), (9, 0), (7,), (0, 2, 4))  # of a global batch
WEIGHTS = ((0.5, 2.0, 1.0), (3.0, 1.0), (4.0,), (1.0, 0.25, 2.0))
BAGS_WITH_HOLES = ((3, -1, 1), (), (7,), (0, 2, -5))
STOCK_LOOKUPS = (
    lambda nn, params, bags: nn.embedding_lookup(params, bags(BAGS, "int64").values),
    lambda nn, params, bags: nn.embedding_lookup_sparse(
        params, bags(BAGS, "int64"), bags(WEIGHTS, "float32"), combiner="sqrtn"
    ),
    lambda nn, params, bags: nn.safe_embedding_lookup_sparse(
        params, bags(BAGS_WITH_HOLES, "int64"), bags(WEIGHTS_WITH_HOLES, "float32"), default_id=5
    ),
)
WEIGHTS_WITH_HOLES = ((1.0, 1.0, 3.0), (), (0.5,), (2.0, 0.0, 1.0))


@dataclasses.dataclass(frozen=True)
class Item:
    """One lookup. bags: of the global batch; weights: of each id in them, or None."""

    variable: int
    combiner: str
    is_ragged: bool
    id_dtype: str
    bags: tuple
    weights: Optional[tuple]


@dataclasses.dataclass(frozen=True)
class Variables:
    """[dim] of embedding variables, and [dim] of ordinary ones, numbered on."""

    of_keys: tuple
    ordinary: tuple

    @property
    def dims(self):
        return (*self.of_keys, *self.ordinary)


@st.composite
def groups(draw):
    """(Variables, [Item], whether rows stay apart: is_sequence)"""
    dims = st.sampled_from([1, 3, 4])
    variables = Variables(
        tuple(draw(st.lists(dims, min_size=1, max_size=3))), tuple(draw(st.lists(dims, max_size=1)))
    )
    items = st.lists(_items(len(variables.dims)), min_size=1, max_size=4)
    return variables, draw(items), draw(st.booleans())


@st.composite
def _items(draw, num_variables):
    ids = st.lists(st.integers(0, NUM_KEYS - 1), max_size=4).map(tuple)
    bags = tuple(draw(st.lists(ids, max_size=7)))
    weights = None
    if draw(st.booleans()):
        weight = st.integers(1, 8).map(lambda eighths: eighths / 4)
        weights = tuple(tuple(draw(weight) for _ in bag) for bag in bags)
    return Item(
        draw(st.integers(0, num_variables - 1)),
        draw(st.sampled_from(["sum", "mean"])),
        draw(st.booleans()),
        draw(st.sampled_from(["int64", "int32"])),
        bags,
        weights,
    )


def assert_equals_tensorflow(variables, items, is_sequence, config=None, rank=0, size=1):
    """Outputs and gradients of one step are TensorFlow's on ordinary variables of the same rows; of
    the whole global batch, of which this rank looks up every size-th bag.

    A key gets its row where its gradient is computed, and no sooner.
    """
    with tf.Graph().as_default(), tf1.Session(config=config) as session:
        params = _make(variables)
        tables = params[: len(variables.of_keys)]
        everything = group_embedding_lookup(params, [tf.range(NUM_KEYS)] * len(params))
        rows = [tf1.placeholder(tf.float32, [NUM_KEYS, dim]) for dim in variables.dims]
        mine = [_part(item, rank, size) for item in items]
        ours = _looked_up(params, mine, is_sequence)
        gradients = tf.gradients(_loss(ours, items, rank, size), params)
        expect = _expected_sequence if is_sequence else _expected
        expected = [expect(rows, item) for item in mine]
        of_mine = tf.gradients(_loss(expected, items, rank, size), rows)
        whole = [expect(rows, item) for item in items] if size > 1 else expected
        of_whole = tf.gradients(_loss(whole, items, 0, 1), rows) if size > 1 else of_mine
        session.run(tf1.global_variables_initializer())
        fed = dict(zip(rows, session.run(everything)))
        for output, wanted in zip(*session.run([ours, expected], fed)):
            assert output.shape == wanted.shape
            np.testing.assert_allclose(output, wanted, **TOLERANCE)
        assert all(session.run([table.num_keys() for table in tables]) == np.zeros(len(tables)))
        used = [i for i, gradient in enumerate(gradients) if gradient is not None]
        assert {item.variable for item in items} == set(used)
        slices = session.run([gradients[i] for i in used])
        exported = session.run([table.export()[0] for table in tables])
        wanted = session.run([of_whole[i] if i < len(tables) else of_mine[i] for i in used], fed)
        everywhere = np.arange(NUM_KEYS)
        for i, found, gradient in zip(used, slices, wanted):
            keys = exported[i] if i < len(tables) else everywhere
            _assert_gradient(_by_key(found, keys), _by_key(gradient, everywhere), keys)
            if i < len(tables):
                bags = [bag for item in items if item.variable == i for bag in item.bags]
                touched = {key for bag in bags for key in bag}
                assert set(keys) == {key for key in touched if key % size == rank}


def assert_stock_lookups_equal_tensorflow(config, rank, size):
    """As above, of nn.embedding_lookup and its sparse kin on an embedding variable."""
    for look_up in STOCK_LOOKUPS:
        with tf.Graph().as_default(), tf1.Session(config=config) as session:
            (variable,) = _make(Variables((3,), ()))
            rows = tf1.placeholder(tf.float32, [NUM_KEYS, 3])
            everything = stock_lookups.embedding_lookup(variable, tf.range(NUM_KEYS))
            ours = look_up(stock_lookups, variable, _every(rank, size))
            expected = look_up(tf1.nn, rows, _every(rank, size))
            slices = tf.gradients(tf.reduce_sum(ours**2), variable)[0]
            whole = look_up(tf1.nn, rows, _every(0, 1))
            of_whole = tf.convert_to_tensor(tf.gradients(tf.reduce_sum(whole**2), rows)[0])
            session.run(tf1.global_variables_initializer())
            fed = {rows: session.run(everything)}
            np.testing.assert_allclose(*session.run([ours, expected], fed), **TOLERANCE)
            gradient = session.run(slices)
            keys, wanted = session.run([variable.export()[0], of_whole], fed)
            _assert_gradient(_by_key(gradient, keys), _by_key(wanted, range(NUM_KEYS)), keys)
            assert all(key % size == rank for key in keys)


def _every(rank, size):
    """A function from bags to every size-th of them."""
    return lambda bags, dtype: _ragged(bags[rank::size], dtype).to_sparse()


def _make(variables):
    tables = [
        get_embedding_variable(
            f"table_{i}", dim, initializer=tf1.random_uniform_initializer(-1.0, 1.0)
        )
        for i, dim in enumerate(variables.of_keys)
    ]
    ordinary = [
        tf1.get_variable(
            f"ordinary_{i}",
            initializer=np.random.default_rng(i).normal(size=[NUM_KEYS, dim]).astype(np.float32),
            use_resource=True,
        )
        for i, dim in enumerate(variables.ordinary)
    ]
    return tables + ordinary


def _part(item, rank, size):
    weights = item.weights and item.weights[rank::size]
    return dataclasses.replace(item, bags=item.bags[rank::size], weights=weights)


def _looked_up(params, items, is_sequence):
    ids, weights = [], []
    for item in items:
        values = _ragged(item.bags, item.id_dtype)
        of_ids = None if item.weights is None else _ragged(item.weights, "float32")
        ids.append(values if item.is_ragged else values.to_sparse())
        weights.append(of_ids if of_ids is None or item.is_ragged else of_ids.to_sparse())
    return group_embedding_lookup_sparse(
        [params[item.variable] for item in items],
        ids,
        [item.combiner for item in items],
        weights,
        is_sequence=is_sequence,
    )


def _expected(rows, item):
    dim = rows[item.variable].shape[-1]
    if not item.bags:
        return tf.zeros([0, dim]) * tf.reduce_sum(rows[item.variable])
    return tf1.nn.safe_embedding_lookup_sparse(
        rows[item.variable],
        _ragged(item.bags, item.id_dtype).to_sparse(),
        None if item.weights is None else _ragged(item.weights, "float32").to_sparse(),
        combiner=item.combiner,
    )


def _expected_sequence(rows, item):
    """[bags, longest bag, dim]: each id's row, times its weight, and zeros behind."""
    weights = item.weights or tuple(tuple(1.0 for _ in bag) for bag in item.bags)
    ids, weights = (
        _ragged(of_bags, dtype).to_tensor()
        for of_bags, dtype in ((item.bags, item.id_dtype), (weights, "float32"))
    )
    return tf.gather(rows[item.variable], ids) * weights[..., tf.newaxis]


def _ragged(bags, dtype):
    values = np.array([x for bag in bags for x in bag], dtype)
    return tf.RaggedTensor.from_row_lengths(values, np.array([len(b) for b in bags], np.int64))


def _loss(outputs, items, rank, size):
    """A sum whose gradients differ from bag to bag, by the bag's place in the global batch."""
    terms = []
    for output, item in zip(outputs, items):
        places = np.arange(len(item.bags), dtype=np.float32)[rank::size]
        factors = (1.0 + places).reshape([-1] + [1] * (output.shape.rank - 1))
        terms.append(tf.reduce_sum(output**2 * factors))
    return tf.add_n(terms)


def _by_key(gradient, keys):
    """{key: gradient [dim]}, added up."""
    if not hasattr(gradient, "indices"):
        return dict(enumerate(gradient))
    totals = {}
    for index, value in zip(gradient.indices, gradient.values):
        totals[keys[index]] = totals.get(keys[index], 0.0) + value
    return totals


def _assert_gradient(found, wanted, keys):
    assert set(found) <= set(keys)
    for key in keys:
        np.testing.assert_allclose(found.get(key, 0.0), wanted.get(key, 0.0), **TOLERANCE)
