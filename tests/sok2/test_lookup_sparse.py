# SPDX-License-Identifier: Apache-2.0
"""lookup_sparse beside tf.nn.embedding_lookup_sparse on one process; test_ranks.py has several."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests.support.processes.subprocess_python import run_python
from tests.support.sessions import initialized_session

NUM_KEYS, BAGS = 9, [[1, 2, 2], [], [8], [0, 5]]
KINDS = ("distributed", "localized:0", "hbm", "hybrid", "plain")
COMBINERS = ("sum", "Sum", "SUM", "mean", "Mean", "MEAN", "average", "Average", "AVERAGE")


def bags_of(kind, dtype=tf.int64):
    ragged = tf.ragged.constant(BAGS, dtype)
    return ragged.to_sparse() if kind == "sparse" else ragged


def weights_of(kind, scale=0.5):
    ragged = tf.RaggedTensor.from_row_splits(
        scale * tf.range(1.0, 7.0), tf.ragged.constant(BAGS).row_splits
    )
    return ragged.to_sparse() if kind == "sparse" else ragged


def make(sok, kind, dim, seed=0):
    """(variable, its rows as a tf.Variable)"""
    rows = np.random.default_rng(seed).normal(size=(NUM_KEYS, dim)).astype(np.float32)
    if kind == "plain":
        return tf.Variable(rows), tf.Variable(rows)
    if kind in ("hbm", "hybrid"):
        variable = sok.DynamicVariable(dim, var_type=kind)
        sok.assign(variable, tf.range(NUM_KEYS), rows)
        return variable, tf.Variable(rows)
    return sok.Variable(rows, mode=kind), tf.Variable(rows)


def expected_of(rows, combiner, weights):
    pooled = tf.nn.embedding_lookup_sparse(
        rows, bags_of("sparse"), weights and weights_of("sparse"),
        combiner="sum" if combiner.lower() == "sum" else "mean",
    )  # fmt: skip
    return tf.concat([pooled, tf.zeros([len(BAGS) - pooled.shape[0], rows.shape[1]])], 0)


def dense(gradient, num_rows=NUM_KEYS):
    rows = tf.convert_to_tensor(gradient)[:num_rows]
    return np.pad(rows, [[0, num_rows - rows.shape[0]], [0, 0]])


FORMS = list(itertools.product(["ragged", "sparse"], [None, "ragged", "sparse"], ["eager"]))


@pytest.mark.parametrize(
    "ids, weights, mode",
    [*FORMS, ("ragged", None, "function"), ("sparse", "ragged", "function")],
)
def test_variables_of_all_kinds_in_one_call(sok, ids, weights, mode):
    """Of all combiners, with repeated variables."""
    cases = list(zip([*KINDS, *KINDS], [*COMBINERS, "sum"], [3, 1, 4, 2, 5] * 2))
    made = [make(sok, kind, dim) for kind, _, dim in cases]
    made.append(made[2])
    combiners = [*(combiner for _, combiner, _ in cases), "mean"]
    variables, rows = zip(*made)

    def look_up():
        values = None if weights is None else [weights_of(weights)] * len(variables)
        with tf.GradientTape() as tape:
            outputs = sok.lookup_sparse(
                variables, [bags_of(ids, tf.int32)] * len(variables), values, combiners
            )
            loss = tf.add_n([tf.reduce_sum(each**2) for each in outputs])
        return outputs, tape.gradient(loss, variables[:-1])

    outputs, gradients = (tf.function(look_up) if mode == "function" else look_up)()
    with tf.GradientTape() as tape:
        expected = [expected_of(*one, weights) for one in zip(rows, combiners)]
        loss = tf.add_n([tf.reduce_sum(each**2) for each in expected])
    for output, values in zip(outputs, expected):
        np.testing.assert_allclose(output, values, rtol=1e-5, atol=1e-6)
    for i, (gradient, values) in enumerate(zip(gradients, tape.gradient(loss, rows[:-1]))):
        np.testing.assert_allclose(dense(gradient), dense(values), rtol=1e-4, atol=1e-5)
        if cases[i][0] != "plain":  # each key once in each lookup
            assert len(gradient.indices) == 5 * (2 if i == 2 else 1)


def test_third_argument_is_told_by_its_type(sok):
    variable, rows = make(sok, "hybrid", 2)
    ids = bags_of("ragged")
    by_sum, by_mean = (expected_of(rows, combiner, None) for combiner in ("sum", "mean"))
    for arguments, expected in [
        ([], by_mean),
        ([None, ["sum"]], by_sum),
        ([["sum"]], by_sum),  # SparseOperationKit 1.1.4's experiment, and DeepRec
        (["SUM"], by_sum),
        ([[3], ["sum"]], by_sum),  # earlier: hotness, combiners
        ([np.int64(3)], by_mean),
        ([[weights_of("ragged")], ["sum"]], expected_of(rows, "sum", True)),
    ]:
        (output,) = sok.lookup_sparse([variable], [ids], *arguments)
        np.testing.assert_allclose(output, expected, rtol=1e-5)
    (output,) = sok.lookup_sparse([variable], (ids,), combiners="sum", hotness=[3])
    np.testing.assert_allclose(output, by_sum, rtol=1e-5)
    assert isinstance(sok.lookup_sparse(variable, ids), tf.Tensor)
    assert sok.lookup_sparse([variable], [ids])[0].shape.as_list() == [4, 2]


def test_mean_by_weights_that_sum_to_zero(sok):
    variable = sok.DynamicVariable(2, "3")
    ids, weights = tf.ragged.constant([[1, 2], [3]]), tf.ragged.constant([[1.0, -1.0], [0.0]])
    assert sok.lookup_sparse(variable, ids, weights).numpy().tolist() == [[0, 0], [0, 0]]


def test_lookups_insert_keys(sok):
    variable = sok.DynamicVariable(2, "3")
    sok.lookup_sparse(variable, tf.ragged.constant([[-4, 2**40], []], tf.int64))
    assert sok.export(variable)[0].numpy().tolist() == [-4, 2**40]


@pytest.mark.parametrize("change, error, message", [
    ({"sp_ids": [bags_of("ragged")] * 2}, ValueError, "as many sp_ids as params, got 2 for 1"),
    ({"combiners": ["sum", "sum"]}, ValueError, "as many combiners as params, got 2 for 1"),
    ({"sp_weights": []}, ValueError, "as many sp_weights as params, got 0 for 1"),
    ({"combiners": 3}, ValueError, "must be 'sum', 'mean' or 'average', got 3"),
    ({"combiners": ["max"]}, ValueError, "must be 'sum', 'mean' or 'average', got 'max'"),
    ({"combiners": [["sum"]]}, ValueError, r"must be 'sum', 'mean' or 'average', got \['sum'\]"),
    ({"sp_ids": [tf.constant([[1]])]}, TypeError, r"sp_ids\[0\] must be SparseTensor or Ragged"),
    ({"sp_ids": [weights_of("ragged")]}, TypeError,
     r"sp_ids\[0\], keys of .*, must be integers, got float32: tf.cast"),
    ({"sp_weights": [bags_of("ragged")]}, TypeError, "must be floats, got int64"),
    ({"sp_ids": [tf.ragged.constant([[[1]]])]}, ValueError, "must have two dimensions"),
    ({"params": [tf.zeros([3, 2])]}, TypeError, "must be variables that are not partitioned"),
    ({"sp_weights": [tf.ragged.constant([[1.0], [2.0]])]}, tf.errors.InvalidArgumentError, "."),
    ({"use_low_frequency_filter": True, "var_type": "hbm"}, ValueError, "var_type='hybrid'"),
])  # fmt: skip
def test_bad_arguments(sok, change, error, message):
    variable = sok.DynamicVariable(2, var_type=change.get("var_type"))
    arguments = {"params": [variable], "sp_ids": [bags_of("ragged")], **change}
    arguments.pop("var_type", None)
    with pytest.raises(error, match=message):
        sok.lookup_sparse(**arguments)
    assert variable.size.numpy()[0] == 0


def test_dense_lookup_needs_a_variable_of_sok(sok):
    with pytest.raises(TypeError, match="needs a variable of sok.Variable"):
        sok.all2all_dense_embedding(tf.Variable([[1.0]]), [0])


def test_in_a_graph_with_placeholders(sok):
    with tf.Graph().as_default():
        sparse = tf.compat.v1.sparse_placeholder(tf.int64)
        dynamic, static = sok.DynamicVariable(2, "3"), sok.Variable(np.eye(4))
        outputs = sok.lookup_sparse([dynamic, static], [sparse, sparse], combiners="sum")
        assert [each.shape.as_list() for each in outputs] == [[None, 2], [None, 4]]
        gradients = tf.gradients(outputs, [dynamic, static])
        values = tf.compat.v1.SparseTensorValue([[0, 0], [0, 1], [2, 0]], [3, 1, 3], [3, 2])
        with initialized_session() as session:
            first, second = session.run(outputs, {sparse: values})
            assert first.tolist() == [[6, 6], [0, 0], [3, 3]]
            assert second.tolist() == [[0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 0, 1]]
            slices = session.run(gradients, {sparse: values})
            assert sorted(slices[0].values[:, 0].tolist()) == [1, 2]


def test_embedding_variables_of_deeprec():
    """As DeepRec's collective strategy calls it: with combiners third. Keys come with gradients."""
    assert run_python("""
        import sok_compat.deeprec as tf
        from sparse_operation_kit import experiment as sok

        sok.init()
        variable = tf.get_embedding_variable("v", 2, initializer=tf.ones_initializer())
        dynamic = sok.DynamicVariable(3, "2")
        variable.target_gpu = -1
        ids = tf.RaggedTensor.from_row_splits(tf.constant([5, 6, 5], tf.int64), [0, 2, 3])
        outputs = sok.lookup_sparse([variable, dynamic, variable], [ids] * 3, ["sum"] * 3)
        train = tf.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_sum(outputs[0]))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            print([each.tolist() for each in session.run(outputs)])
            print(session.run(variable.total_count()))
            session.run(train)
            print(sorted(session.run(variable.export())[1].tolist()))
    """).splitlines()[-3:] == [
        "[[[2.0, 2.0], [1.0, 1.0]], [[4.0, 4.0, 4.0], [2.0, 2.0, 2.0]], [[2.0, 2.0], [1.0, 1.0]]]",
        "[0 2]",
        "[[0.0, 0.0], [0.5, 0.5]]",
    ]


def test_many_variables_without_pooling(sok):
    from sok_compat.sparse_operation_kit.lookup import group_lookup, lookup_sparse_impl

    made = [make(sok, kind, dim, seed=dim) for dim, kind in enumerate(KINDS, start=2)]
    keys = [
        tf.constant([[3, 0], [3, 8]], tf.int32 if i % 2 else tf.int64) for i in range(len(made))
    ]
    variables = [variable for variable, _ in made]
    with tf.GradientTape() as tape:
        outputs = group_lookup(variables, keys)
        loss = tf.add_n([tf.reduce_sum(output**2) for output in outputs])
    gradients = tape.gradient(loss, variables)
    for (_, rows), output, gradient in zip(made, outputs, gradients):
        np.testing.assert_array_equal(output, tf.gather(rows, keys[0]))
        total = np.sum(dense(gradient), axis=0)
        np.testing.assert_allclose(total, 2 * np.sum(output, axis=(0, 1)), rtol=1e-5)
    (rows,) = lookup_sparse_impl(variables[0], bags_of("ragged"))
    np.testing.assert_array_equal(rows, sok.lookup_sparse(variables[0], bags_of("ragged")))
    with pytest.raises(ValueError, match="as many indices as params, got 1 for 5"):
        group_lookup(variables, keys[:1])
