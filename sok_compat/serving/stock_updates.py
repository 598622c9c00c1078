# SPDX-License-Identifier: Apache-2.0
"""Replaces our fused updates of ordinary variables in a graph by TensorFlow's ops, which a server
without sok_compat can load. Functions cannot: they take no references to variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

tf1 = tf.compat.v1
_OF_REFERENCES = "SokApplyRuleToRefVariable"
OPS = ("SokApplyRuleToVariable", _OF_REFERENCES)


def replace_update(graph_def: tf.compat.v1.GraphDef, node: tf.compat.v1.NodeDef) -> None:
    """Makes a node whose op is one of OPS a NoOp that runs after the nodes of the same update.

    Args:
      graph_def: GraphDef, of which the node is one. It gets the nodes `<node's name>/...`.
      node: NodeDef.
    """
    inputs = [name for name in node.input if name[0] != "^"]
    controls = [name for name in node.input if name[0] == "^"]
    update, stand_ins, writes = _update(node)
    given = dict(zip(stand_ins, inputs))
    for made in update.node:
        if made.name in given:
            continue
        kept = graph_def.node.add(name=f"{node.name}/{made.name}", op=made.op, device=node.device)
        kept.input.extend(_renamed(name, given, node.name) for name in made.input)
        kept.input.extend(controls)
        for name, value in made.attr.items():
            if name[0] != "_":  # such as colocation with what stands for a variable
                kept.attr[name].CopyFrom(value)
    change_op(node, "NoOp")
    del node.input[:]
    node.input.extend([*(f"^{node.name}/{name}" for name in writes), *controls])


def change_op(node: tf.compat.v1.NodeDef, op: str) -> None:
    """Gives a NodeDef another op, without the attributes of the one that it had."""
    node.op = op
    for name in [name for name in node.attr if name[0] != "_"]:
        del node.attr[name]


def _renamed(name, given, scope):
    """An input of a copied node: what stands for an input of ours, or another copied node's."""
    if name[0] == "^":
        return f"^{scope}/{name[1:]}"
    return given.get(name) or f"{scope}/{name}"


def _update(node):
    """(GraphDef, names of its nodes that stand for the node's inputs, of those that write)."""
    read, write = _ACCESS[node.op, node.attr["moves_all_rows"].b]
    rule = _rule_of(node)
    with tf.Graph().as_default() as graph:
        variables = [
            tf.raw_ops.VariableV2(shape=tf.TensorShape(None), dtype=tf.float32)
            if node.op == _OF_REFERENCES
            else tf1.placeholder(tf.resource)
            for _ in range(1 + node.attr["num_states"].i)
        ]
        gradients, row_ids = tf1.placeholder(tf.float32), tf1.placeholder(tf.int64)
        names = [name.decode() for name in node.attr["hyperparameter_names"].list.s]
        numbers = {name: tf1.placeholder(tf.float32, []) for name in names}
        old = [read(variable, row_ids) for variable in variables]
        of_rows = gradients
        if node.attr["moves_all_rows"].b:
            of_rows = tf.scatter_nd(row_ids[:, None], gradients, tf.shape(old[0], tf.int64))
        new = rule(of_rows, *old, **numbers)
        with tf.control_dependencies(old):
            writes = [write(*each) for each in zip(variables, [row_ids] * len(new), new)]
    stand_ins = [*variables, gradients, row_ids, *numbers.values()]
    return graph.as_graph_def(), [each.op.name for each in stand_ins], list(map(_name, writes))


def _rule_of(node):
    name = node.attr["rule"].s.decode()
    if name not in _RULES:
        raise NotImplementedError(
            f"node {node.name}: TensorFlow's ops stand in for the rules {sorted(_RULES)} of "
            f"ordinary variables, got '{name}'"
        )
    return _RULES[name]


def _name(op_or_tensor):
    return getattr(op_or_tensor, "op", op_or_tensor).name


# {(our op, whether it moves all rows): (read rows, write rows)}.
_ACCESS = {
    (_OF_REFERENCES, False): (
        lambda ref, ids: tf.raw_ops.GatherV2(params=ref, indices=ids, axis=0),
        lambda ref, ids, rows: tf.raw_ops.ScatterUpdate(ref=ref, indices=ids, updates=rows),
    ),
    (_OF_REFERENCES, True): (
        lambda ref, ids: tf.raw_ops.Identity(input=ref),
        lambda ref, ids, rows: tf.raw_ops.Assign(ref=ref, value=rows),
    ),
    ("SokApplyRuleToVariable", False): (
        lambda handle, ids: tf.raw_ops.ResourceGather(
            resource=handle, indices=ids, dtype=tf.float32
        ),
        lambda handle, ids, rows: tf.raw_ops.ResourceScatterUpdate(
            resource=handle, indices=ids, updates=rows
        ),
    ),
    ("SokApplyRuleToVariable", True): (
        lambda handle, ids: tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32),
        lambda handle, ids, rows: tf.raw_ops.AssignVariableOp(resource=handle, value=rows),
    ),
}


# The rules of ops/engine/rules.h: the new rows and states, in the order of its arithmetic.
def _adam(gradients, rows, m, v, *, step_size, beta1, beta2, epsilon):
    m = beta1 * m + (1.0 - beta1) * gradients
    v = beta2 * v + (1.0 - beta2) * (gradients * gradients)
    return rows - step_size * m / (tf.sqrt(v) + epsilon), m, v


def _rmsprop(gradients, rows, mean_square, moment, *, learning_rate, rho, momentum, epsilon):
    mean_square = mean_square * rho + gradients * gradients * (1.0 - rho)
    moment = moment * momentum + 1.0 / tf.sqrt(mean_square + epsilon) * learning_rate * gradients
    return rows - moment, mean_square, moment


_RULES: dict[str, Callable[..., Sequence[tf.Tensor]]] = {"adam": _adam, "rmsprop": _rmsprop}
