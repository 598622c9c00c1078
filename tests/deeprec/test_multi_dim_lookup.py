# SPDX-License-Identifier: Apache-2.0
"""embedding_lookup_sparse_multi_dim combines rows dimension by dimension."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.deeprec.lookups.multi_dim_lookup import embedding_lookup_sparse_multi_dim
from sok_compat.deeprec.lookups.stock_lookups import embedding_lookup
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from tests.support.sessions import initialized_session

DIM, NUM_KEYS = 2, 8
SHAPE = (5, 3, 2)
IDS = {(0, 0, 0): 3, (0, 0, 1): 5, (0, 2, 1): 3, (2, 1, 0): 7, (3, 0, 1): 1, (3, 1, 0): 1}
WEIGHTS = dict(zip(IDS, (2.0, 0.5, 1.0, 3.0, 4.0, 0.25)))


def combined(combiner, rows, offsets, weights, size):
    if combiner == "tile":
        tiled = np.zeros((size, len(rows[0])))
        for offset, row in zip(offsets, rows):
            tiled[offset] = row
        return tiled.ravel()
    if combiner in ("max", "min"):
        return getattr(np, combiner)(rows, 0)
    divisor = {"sum": 1, "mean": np.sum(weights), "sqrtn": np.sqrt(np.sum(np.square(weights)))}
    return np.sum(rows, 0) / divisor[combiner]


def expected(table, combiners, weighted, weight_axis):
    """By the definition, cell by cell."""
    weights = WEIGHTS if weighted else dict.fromkeys(IDS, 1.0)
    cells = {place: (table[key] * weights[place], weights[place]) for place, key in IDS.items()}
    for axis in range(len(SHAPE) - 1, 0, -1):
        groups = {}
        for place, cell in cells.items():
            groups.setdefault(place[:axis], []).append((place[axis], *cell))
        cells = {}
        for place, found in groups.items():
            offsets, rows, of_rows = zip(*found)
            counted = of_rows if weighted and axis == weight_axis else np.ones(len(rows))
            row = combined(combiners[axis - 1], rows, offsets, counted, SHAPE[axis])
            cells[place] = row, np.mean(of_rows)
    output = np.zeros((4, len(cells[0,][0])))  # the last sample is empty
    for (sample,), (row, _) in cells.items():
        output[sample] = row
    return output


@pytest.mark.parametrize("num_parts", [None, 2])
@pytest.mark.parametrize(
    "combiners, weighted, weight_axis",
    [
        (("sum", "mean"), False, -1),
        (("mean", "sqrtn"), True, -1),
        (("mean", "sum"), True, 1),
        (("sqrtn", "tile"), True, 1),
        (("tile", "max"), False, -1),
        (("tile", "tile"), True, None),
        (("min", "mean"), False, -1),
    ],
)
def test_follows_the_definition(graph, combiners, weighted, weight_axis, num_parts):
    places = np.array(list(IDS))
    ids = tf.SparseTensor(places, tf.constant(list(IDS.values()), tf.int64), SHAPE)
    weights = ids.with_values(tf.constant(list(WEIGHTS.values()))) if weighted else None
    partitioner = num_parts and tf.compat.v1.fixed_size_partitioner(num_parts)
    variable = get_embedding_variable("v", DIM, partitioner=partitioner)
    everything = embedding_lookup(variable, tf.range(NUM_KEYS))
    rows = tf.compat.v1.placeholder(tf.float32, [NUM_KEYS, DIM])
    outputs = [
        embedding_lookup_sparse_multi_dim(
            params, ids, weights, combiners=combiners, weight_axis=weight_axis
        )
        for params in (variable, rows)
    ]
    parts = list(variable) if num_parts else [variable]
    gradients = tf.gradients(tf.reduce_sum(outputs[0] ** 2), parts)
    wanted = tf.convert_to_tensor(tf.gradients(tf.reduce_sum(outputs[1] ** 2), rows)[0])
    with initialized_session() as session:
        table = session.run(everything)
        ours, plain, slices, dense = session.run([*outputs, gradients, wanted], {rows: table})
        axis = 2 if weight_axis in (None, -1) else weight_axis
        np.testing.assert_allclose(ours, expected(table, combiners, weighted, axis), rtol=1e-5)
        np.testing.assert_array_equal(ours, plain)
        total = sum(each.values.sum(0) for each in slices)
        np.testing.assert_allclose(total, dense.sum(0), rtol=1e-5)
    assert outputs[0].shape[1] == ours.shape[1]


def test_no_ids_and_errors(graph):
    ids = tf.SparseTensor(np.zeros((0, 2), np.int64), tf.constant([], tf.int64), [3, 2])
    rows = tf.ones([NUM_KEYS, DIM])
    look_up = embedding_lookup_sparse_multi_dim
    with initialized_session() as session:
        assert session.run(look_up(rows, ids, None)).shape == (0, DIM)
        assert session.run(look_up(rows, ids, None, combiners="tile")).shape == (0, 2 * DIM)
    with pytest.raises(ValueError, match="must be of mean, .*got 'median'"):
        look_up(rows, ids, None, combiners=["median"])
    with pytest.raises(ValueError, match=r"2 combiners for the shape \(3, 2\)"):
        look_up(rows, ids, None, combiners=["sum", "sum"])
    with pytest.raises(TypeError, match="sp_ids must be SparseTensor, got list"):
        look_up(rows, [1], None)
    with pytest.raises(TypeError, match="sp_weights must be None or SparseTensor, got list"):
        look_up(rows, ids, [1.0])
