# SPDX-License-Identifier: Apache-2.0
"""Walks through graphs: what an op depends on, and which tensor is outside of functions."""

import gc
import weakref

import pytest
import tensorflow as tf

from sok_compat.runtime.graphs import ancestors, functions_of, outside, state_here, state_of

tf1 = tf.compat.v1


def test_ancestors_come_once_and_end_in_loops():
    with tf.Graph().as_default():
        start = tf.constant(3.0, name="start")
        with tf.control_dependencies([tf.no_op("before")]):
            both = tf.add(start, start, name="both")
        tf1.disable_control_flow_v2()
        try:
            loop = tf1.while_loop(lambda x: x < 9.0, lambda x: x + both, [both])
        finally:
            tf1.enable_control_flow_v2()
        names = [op.name for op in ancestors([loop.op])]
        assert {"both", "start", "before"} < set(names)
        assert len(names) == len(set(names))
        through_inputs = ancestors([both.op], lambda op: [x.op for x in op.inputs])
        assert [op.name for op in through_inputs] == ["both", "start"]


def _in_function(tensor, seen):
    @tf.function
    def function():
        seen.append(tf.identity(tensor))
        return seen[-1]

    function.get_concrete_function()


def _in_branch_of_a_function(tensor, seen):
    @tf.function
    def function(is_taken):
        return tf.cond(is_taken, lambda: seen.append(tf.identity(tensor)) or seen[-1], lambda: 0.0)

    function.get_concrete_function(tf.TensorSpec([], tf.bool))


def _in_older_control_flow(tensor, seen):
    tf1.disable_control_flow_v2()
    try:
        is_taken = tf1.placeholder(tf.bool, [])
        tf.cond(is_taken, lambda: seen.append(tf.identity(tensor)) or seen[-1], lambda: 0.0)
    finally:
        tf1.enable_control_flow_v2()


@pytest.mark.parametrize("build", [_in_function, _in_branch_of_a_function, _in_older_control_flow])
def test_outside_is_the_tensor_around_functions_and_branches(build):
    with tf.Graph().as_default():
        tensor, seen = tf1.placeholder(tf.float32, []), []
        build(tensor, seen)
        assert outside(seen[0])[-1] is tensor
        assert outside(tensor) == [tensor]


def test_functions_within_functions(monkeypatch):
    @tf.function
    def inner(x):
        return tf.exp(x)

    @tf.function
    def outer(x):
        return inner(x) + inner(x)

    with tf.Graph().as_default():
        op = outer(tf.constant(1.0)).op
        while not op.type.endswith("PartitionedCall"):
            op = op.inputs[0].op
        # Written out for each op, a graph of n calls takes n^2 time.
        monkeypatch.delattr(tf.Graph, "as_graph_def")
        found = [[node.op for node in function.node_def] for function in functions_of(op)]
    assert sum("Exp" in ops for ops in found) == 1
    assert any("AddV2" in ops for ops in found)


def test_a_state_lives_as_long_as_its_graph():
    with tf.Graph().as_default() as graph:
        state_here().exports["tensor"] = tf.constant(1.0)  # of the graph, as states have
        assert state_of(graph) is state_here() is not state_of(tf.Graph())
    assert state_here() is state_of(None)
    state = weakref.ref(state_of(graph))
    del graph
    gc.collect()
    assert state() is None
