# SPDX-License-Identifier: Apache-2.0
"""sok.prefetch_lookups in one process: what it takes and gives."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat as sok
from sok_compat.runtime.tf_versions import eager_mode

tf1 = tf.compat.v1


def numbers(count):
    """0, 1, 2, ... of an input pipeline, as a scalar tensor."""
    return tf1.data.make_one_shot_iterator(tf.data.Dataset.range(count)).get_next()


def taken(session, fetches, steps):
    """What each of so many steps gives, with queue runners."""
    coord = tf1.train.Coordinator()
    threads = tf1.train.start_queue_runners(session, coord)
    values = [session.run(fetches) for _ in range(steps)]
    coord.request_stop()
    coord.join(threads)
    return values


@pytest.mark.parametrize("capacity", [1, 3])
def test_batches_of_any_structure_come_in_order(capacity):
    with tf.Graph().as_default(), tf1.Session() as session:
        number = numbers(10)
        nest = {
            "sparse": tf.SparseTensor([[number, 0]], [number], [10, 1]),
            "both": (number, tf.RaggedTensor.from_row_lengths(tf.range(number), [number])),
        }
        prefetched = sok.prefetch_lookups(nest, capacity=capacity)
        assert prefetched["both"][0].shape == [] and prefetched["sparse"].values.shape == [1]
        for expected, value in enumerate(taken(session, prefetched, 6)):
            assert value["sparse"].indices.tolist() == [[expected, 0]]
            assert value["both"][0] == expected
            assert value["both"][1].to_list() == [list(range(expected))]


def test_the_end_of_the_data_is_that_of_the_step():
    with tf.Graph().as_default(), tf1.Session() as session:
        prefetched = sok.prefetch_lookups(numbers(2))
        tf1.train.start_queue_runners(session)
        assert [session.run(prefetched) for _ in range(2)] == [0, 1]
        for _ in range(2):
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(prefetched)


def test_keys_that_depend_on_more_are_looked_up_in_their_step(caplog):
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        sok.Init(global_batch_size=1, seed=1)
        layer = sok.All2AllDenseEmbedding(100, 2, slot_num=1, nnz_per_slot=1)
        offset = tf1.placeholder(tf.int64, [])
        prefetched = sok.prefetch_lookups(numbers(10))
        rows = layer(tf.reshape(prefetched + offset, [1, 1, 1]))
        assert "depend on Placeholder" in caplog.text
        expected = layer(tf.reshape(offset, [1, 1, 1]), training=False)
        assert "prefetched_lookup" not in [op.name for op in graph.get_operations()]
        session.run(tf1.global_variables_initializer())
        tf1.train.start_queue_runners(session)
        for number in range(3):
            got = session.run(rows, {offset: 7})
            np.testing.assert_array_equal(got, session.run(expected, {offset: 7 + number}))


def test_keys_may_come_from_functions_within_functions():
    """The thread's copy of a call calls the graph's functions, too."""

    @tf.function
    def next_to(key):
        return key + 1

    @tf.function
    def keys_of(number):
        return tf.reshape(next_to(number), [1, 1, 1])

    with tf.Graph().as_default() as graph, tf1.Session() as session:
        sok.Init(global_batch_size=1, seed=1)
        layer = sok.All2AllDenseEmbedding(100, 2, slot_num=1, nnz_per_slot=1)
        rows = layer(keys_of(sok.prefetch_lookups(numbers(10))))
        copied = {op.type for op in graph.get_operations() if op.name.startswith("prefetch/")}
        assert "PartitionedCall" in copied or "StatefulPartitionedCall" in copied
        key = tf1.placeholder(tf.int64, [])
        expected = layer(tf.reshape(key, [1, 1, 1]), training=False)
        session.run(tf1.global_variables_initializer())
        for number, got in enumerate(taken(session, rows, 3)):
            np.testing.assert_array_equal(got, session.run(expected, {key: number + 1}))


def test_what_it_does_not_take():
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="needs tensors, got {}"):
            sok.prefetch_lookups({})
        with pytest.raises(ValueError, match="capacity must be an int >= 1, got 0"):
            sok.prefetch_lookups(numbers(1), capacity=0)
    with eager_mode(), pytest.raises(ValueError, match="is for graphs of sessions"):
        sok.prefetch_lookups(tf.constant(1))


def test_a_meta_graph_can_be_imported():
    with tf.Graph().as_default():
        sok.prefetch_lookups(numbers(3))
        meta_graph = tf1.train.export_meta_graph()
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        tf1.train.import_meta_graph(meta_graph)
        tf1.train.start_queue_runners(session)
        with pytest.raises(tf.errors.FailedPreconditionError, match="no thread makes the batches"):
            session.run(graph.get_tensor_by_name("SokPrefetchTake:0"))
