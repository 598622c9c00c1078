# SPDX-License-Identifier: Apache-2.0
"""Multihash and dynamic-dimension variables, beside plain variables and the same formula."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.deeprec.lookups import stock_lookups as nn
from sok_compat.deeprec.namespace.names import value_of
from sok_compat.deeprec.variables.composed_variables import (
    get_dynamic_dimension_embedding_variable,
    get_multihash_variable,
)
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
IDS = [[0, 3, 11], [17, 3, -2]]  # one beyond the quotients
DIMS = {"add": [[4, 3], [3, 3]], "mul": [[4, 3], [3, 3]], "concat": [[4, 3], [3, 2]]}
JOINED = {"add": tf.add, "mul": tf.multiply, "concat": lambda a, b: tf.concat([a, b], -1)}


@pytest.mark.parametrize("num_parts", [None, 2])
@pytest.mark.parametrize("operation", [*DIMS])
def test_a_multihash_variable_trains_as_its_formula(graph, operation, num_parts):
    partitioner = num_parts and tf1.fixed_size_partitioner(num_parts)
    initializer = tf1.random_normal_initializer(seed=3)
    variable = get_multihash_variable("v", DIMS[operation], 2, "Q-R", operation,
                                      initializer=initializer, partitioner=partitioner)  # fmt: skip
    rows = nn.embedding_lookup([variable], IDS)
    assert rows.shape == [2, 3, *variable.shape] and variable.dtype == tf.float32
    plain = [tf1.get_variable(f"plain_{i}", shape) for i, shape in enumerate(DIMS[operation])]
    copy = [tf1.assign(p, tf.convert_to_tensor(v)) for p, v in zip(plain, variable.val_list)]
    expected = JOINED[operation](
        tf.gather(plain[0], np.array(IDS) // 4 % 4), tf.gather(plain[1], np.array(IDS) % 3)
    )
    loss, expected_loss = (tf.reduce_sum((each - 1.0) ** 2) for each in (rows, expected))
    step = tf1.train.AdagradOptimizer(0.1).minimize(loss + expected_loss)
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        session.run(copy)
        for _ in range(3):
            ours, theirs, _ = session.run([loss, expected_loss, step])
            np.testing.assert_allclose(ours, theirs, rtol=1e-5)
        names = {v.op.name for v in tf1.trainable_variables()}
        parts = [""] if num_parts is None else [f"/part_{i}" for i in range(num_parts)]
        assert {
            f"v/{each}{part}" for each in ("quotients", "remainders") for part in parts
        } <= names


def test_bags_and_reuse_of_a_multihash_variable(graph):
    with tf1.variable_scope("s", reuse=tf1.AUTO_REUSE):
        variables = [
            get_multihash_variable("v", [[4, 3], [3, 3]], initializer=tf1.ones_initializer())
            for _ in range(2)
        ]
    assert variables[0].val_list[0] is variables[1].val_list[0]
    bags = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], tf.constant([1, 2, 9], tf.int64), [3, 2])
    pooled = [
        nn.embedding_lookup_sparse(variables[0], bags, None, combiner="sum"),
        nn.safe_embedding_lookup_sparse(variables[1], bags, combiner="mean"),
    ]
    with initialized_session() as session:
        summed, mean = session.run(pooled)
    np.testing.assert_array_equal(summed[[0, 2], 0], [4, 2])
    np.testing.assert_array_equal(mean[:, 0], [2, 0, 2])


@pytest.mark.parametrize("settings, message", [
    (dict(dims=[[4, 3], [3, 2]]), "one dim unless the operation is 'concat', got"),
    (dict(dims=[[4, 3]]), "dims must be"), (dict(dims=[[4], [3]]), "dims must be"),
    (dict(dims=[[0, 3], [3, 3]]), "dims must be"),
    (dict(operation="max"), "operation must be one of"),
    (dict(num_of_partitions=3), "'Q-R', of 2 partitions, got 'Q-R' of 3"),
    (dict(complementary_strategy="R"), "must be 'Q-R'"),
])  # fmt: skip
def test_wrong_arguments_of_a_multihash_variable(graph, settings, message):
    with pytest.raises(ValueError, match=message):
        get_multihash_variable("v", **{"dims": [[4, 3], [3, 3]], **settings})
    with pytest.raises(TypeError, match=r"ids of v must be integers, got float32: tf.cast\("):
        nn.embedding_lookup(get_multihash_variable("v", [[4, 3], [3, 3]]), [1.0])


@pytest.mark.parametrize("partitioner", [None, tf1.fixed_size_partitioner(2)])
@pytest.mark.parametrize("kind", ["AdagradOptimizer", "AdamAsyncOptimizer"])
def test_a_dynamic_dimension_variable_trains_as_its_blocks(graph, tmp_path, kind, partitioner):
    variable = get_dynamic_dimension_embedding_variable(
        "v", 3.0, 2, initializer=tf1.ones_initializer(), partitioner=partitioner
    )
    ids, blocknums = tf.constant([7, 2, 7, 5], tf.int64), tf.constant([2, 1, 2, 0])
    rows = nn.embedding_lookup(variable, ids, blocknums=blocknums)
    assert rows.shape == [4, 6] == [4, *variable.shape]
    plain = [tf1.get_variable(f"plain_{i}", [8, 3], initializer=tf1.ones_initializer())
             for i in range(2)]  # fmt: skip
    masks = [tf.cast(blocknums[:, tf.newaxis] > i, tf.float32) for i in range(2)]
    expected = tf.concat([tf.gather(plain[i], ids) * masks[i] for i in range(2)], 1)
    losses = [tf.reduce_sum((each - 3.0) ** 2) for each in (rows, expected)]
    optimizer = value_of(f"train.{kind}")(0.1)
    blocks = tf.nest.flatten([list(b) if partitioner else b for b in variable.blocks])
    step = optimizer.minimize(losses[0] + losses[1], var_list=[*blocks, *plain])
    keys = [block.export()[0] for block in blocks]
    saver = tf1.train.Saver()
    with initialized_session() as session:
        for _ in range(3):
            ours, theirs, _ = session.run([*losses, step])
            np.testing.assert_allclose(ours, theirs, rtol=1e-5)
        found = [sorted(each.tolist()) for each in session.run(keys)]
        num_parts = len(blocks) // 2
        assert sorted(sum(found[:num_parts], [])) == [2, 7] and sum(found[num_parts:], []) == [7]
        path, before = saver.save(session, str(tmp_path / "model")), session.run(rows)
    with tf1.Session(graph=graph) as session:
        saver.restore(session, path)
        np.testing.assert_array_equal(session.run(rows), before)
    np.testing.assert_array_equal(before[3], 0)
    np.testing.assert_array_equal(before[1, 3:], 0)


def test_wrong_arguments_of_a_dynamic_dimension_variable(graph):
    for dim, count in ((2.5, 2), (0, 2), (2, 0), (2, 1.5), ("x", 1)):
        with pytest.raises(ValueError, match="must be whole numbers, at least 1, got"):
            get_dynamic_dimension_embedding_variable("v", dim, count)
    variable = get_dynamic_dimension_embedding_variable("v", 2, 2)
    with pytest.raises(ValueError, match="variable v needs blocknums, .* got None"):
        nn.embedding_lookup([variable], [1, 2])
