# SPDX-License-Identifier: Apache-2.0
"""Embedding variables whose initializers load a checkpoint."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.deeprec.optimizer_rules import train_optimizers as optimizers
from sok_compat.deeprec.variables import embedding_variable
from sok_compat.deeprec.variables.options import CheckpointOption, EmbeddingVariableOption
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from sok_compat.ranks.identity import Ranks
from tests.support.deeprec.deeprec_files import tensors_of, write_tensors

tf1 = tf.compat.v1
DIM = 2
ROWS = {key: (float(key), 1.0) for key in (1, 5, 1002, -4, 2**40)}


@pytest.fixture
def checkpoint(tmp_path):
    """With 'tower/v' in two parts, its accumulators, and 'tower/dense'."""
    path = str(tmp_path / "model")
    tensors = tensors_of("tower/v", ROWS, DIM, 2)
    slot = tensors_of("tower/v|/Adagrad", dict.fromkeys(ROWS, (9.0, 9.0)), DIM, 2)
    write_tensors(path, {**tensors, **slot, "tower/dense": np.float32([3, 4])})
    return path


def build(num_parts, name="v", **options):
    partitioner = num_parts and tf1.fixed_size_partitioner(num_parts)
    found = get_embedding_variable(name, DIM, partitioner=partitioner, **options)
    parts = list(found) if num_parts else [found]
    loss = tf.reduce_sum(found.sparse_read(tf.constant([1], tf.int64)))
    step = optimizers.AdagradOptimizer(0.1, 0.5).minimize(loss, var_list=parts)
    return found, parts, step


def contents(session, parts):
    exported = [session.run(part.export()[:2]) for part in parts]
    return {key: tuple(row) for keys, rows in exported for key, row in zip(keys, rows)}


def assert_starts_there(parts, step):
    with tf1.Session() as session:
        for initializer in (
            tf1.global_variables_initializer(),
            [*tf1.get_collection("ev_init_var_ops"), *tf1.get_collection("ev_init_slot_ops")],
        ):
            session.run(initializer)
            assert contents(session, parts) == ROWS
            slots = [session.run(part.slots[0].read_value()) for part in parts]
            counts = [session.run(part.num_keys()) for part in parts]
            assert all((slot[:count] == 0.5).all() for slot, count in zip(slots, counts))
            session.run(step)
            assert contents(session, parts)[1] != ROWS[1]


@pytest.mark.parametrize("num_parts", [None, 2, 3])
@pytest.mark.parametrize("of_folder", [True, False])
def test_checkpoint_option(graph, checkpoint, tmp_path, num_parts, of_folder):
    if of_folder:
        tf1.train.update_checkpoint_state(str(tmp_path), checkpoint)
    option = CheckpointOption(tmp_path if of_folder else checkpoint, "tower/v")
    _, parts, step = build(num_parts, ev_option=EmbeddingVariableOption(ckpt=option))
    assert_starts_there(parts, step)


MAPS = {
    "variable": lambda variable: {"tower/v": variable},
    "name": lambda variable: {"tower/v": "here/v"},
    "scope": lambda variable: [("tower/", "here/")],
}


@pytest.mark.parametrize("num_parts", [None, 3])
@pytest.mark.parametrize("kind", MAPS)
def test_init_from_checkpoint(graph, checkpoint, kind, num_parts):
    with tf1.variable_scope("here"):
        dense = tf1.get_variable("dense", [2])
    variable, parts, step = build(num_parts, "here/v")
    tf1.train.init_from_checkpoint(checkpoint, MAPS[kind](variable))
    assert_starts_there(parts, step)
    with tf1.variable_scope("", reuse=True), tf1.Session() as session:
        again = get_embedding_variable(
            "here/v", DIM, partitioner=num_parts and tf1.fixed_size_partitioner(num_parts)
        )
        assert list(again) == parts if num_parts else again is variable
        session.run(tf1.global_variables_initializer())
        assert (session.run(dense).tolist() == [3, 4]) == (kind == "scope")


@pytest.mark.parametrize("num_parts", [None, 2])
@pytest.mark.parametrize("which", [".*", "here/", "v", "variables"])
def test_warm_start(graph, checkpoint, num_parts, which):
    with tf1.variable_scope("here"):
        variable, parts, step = build(num_parts)
        dense = tf1.get_variable("dense", [2], use_resource=True)
    names = {"here/v": "tower/v", "here/dense": "tower/dense"}
    if which == "v":  # in no scope: nothing is named so
        with pytest.raises(ValueError, match="not used"):
            tf1.train.warm_start(checkpoint, which, var_name_to_prev_var_name=names)
        return
    chosen = [*parts, dense] if which == "variables" else which
    tf1.train.warm_start(checkpoint, chosen, var_name_to_prev_var_name=names)
    assert_starts_there(parts, step)
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        assert session.run(dense).tolist() == [3, 4]


def test_warm_start_refuses_slots(graph, checkpoint):
    build(None)
    with pytest.raises(NotImplementedError, match="does not load v/Adagrad, a slot of a table"):
        tf1.train.warm_start(checkpoint, ["v"])


def test_parts_by_their_names(graph, checkpoint):
    _, parts, step = build(3, "here/v")
    pairs = {f"tower/v/part_{i}": [part] for i, part in enumerate(parts)}
    tf1.train.init_from_checkpoint(checkpoint, pairs)
    assert_starts_there(parts, step)


def test_other_variables_beside(graph, checkpoint):
    """A name that begins as an embedding variable's is no scope."""
    dense = tf1.get_variable("dense", [2])
    embedding = get_embedding_variable("dense_v", DIM)
    tf1.train.init_from_checkpoint(checkpoint, {"tower/dense": "dense"})
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        assert session.run(dense).tolist() == [3, 4] and session.run(embedding.num_keys()) == 0


def test_what_is_not_there(graph, checkpoint, tmp_path):
    option = EmbeddingVariableOption(ckpt=CheckpointOption(checkpoint))
    with pytest.raises(ValueError, match="v cannot start from .*neither v-keys nor v/part_0-keys"):
        get_embedding_variable("v", DIM, ev_option=option)
    get_embedding_variable("w", DIM)
    with pytest.raises(ValueError, match="w cannot start from .*neither tower/w-keys"):
        tf1.train.init_from_checkpoint(checkpoint, {"tower/": "/"})
    (tmp_path / "empty").mkdir()
    option = EmbeddingVariableOption(ckpt=CheckpointOption(str(tmp_path / "empty"), "tower/v"))
    with pytest.raises(ValueError, match="no checkpoint in .*empty"):
        get_embedding_variable("x", DIM, ev_option=option)


def test_slots_are_refused(graph, checkpoint):
    _, parts, _ = build(None)
    with pytest.raises(NotImplementedError, match="does not load v/Adagrad, a table or a slot"):
        tf1.train.init_from_checkpoint(checkpoint, {"tower/v/Adagrad": parts[0].slots[0]})
    with pytest.raises(NotImplementedError, match="does not load v/Adagrad, a table or a slot"):
        tf1.train.init_from_checkpoint(checkpoint, {"tower/v/Adagrad": list(parts[0].slots)})


def test_a_scope_with_scalars_of_an_optimizer(graph, checkpoint):
    """Of a variable that starts from the checkpoint, like its slots."""
    variable = get_embedding_variable("here/v", DIM)
    optimizer = optimizers.AdamAsyncOptimizer()
    optimizer.minimize(tf.reduce_sum(variable.sparse_read([1])), var_list=[variable])
    tf1.train.init_from_checkpoint(checkpoint, {"tower/": "here/"})
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        assert contents(session, [variable]) == ROWS


@pytest.mark.parametrize("num_parts", [None, 2])
def test_a_rank_loads_what_it_owns(graph, checkpoint, monkeypatch, num_parts):
    monkeypatch.setattr(embedding_variable, "connected_ranks", lambda: Ranks(1, 3))
    partitioner = num_parts and tf1.fixed_size_partitioner(num_parts)
    option = EmbeddingVariableOption(ckpt=CheckpointOption(checkpoint, "tower/v"))
    found = get_embedding_variable("v", DIM, partitioner=partitioner, ev_option=option)
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        expected = {key: row for key, row in ROWS.items() if key % 3 == 1}
        assert contents(session, list(found) if num_parts else [found]) == expected


def test_any_part_is_enough(graph, tmp_path):
    path = str(tmp_path / "one")
    tensors = tensors_of("v", ROWS, DIM, 3)
    write_tensors(path, {n: x for n, x in tensors.items() if n.startswith("v/part_1")})
    option = EmbeddingVariableOption(ckpt=CheckpointOption(path))
    variable = get_embedding_variable("v", DIM, ev_option=option)
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        assert contents(session, [variable]) == {k: r for k, r in ROWS.items() if k % 1000 % 3 == 1}
