# SPDX-License-Identifier: Apache-2.0
"""`sok.kit_lib`: raw ops that mean something here, and the others' errors."""

import gc

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from sok_compat.sparse_operation_kit import kit_lib
from tests.support.cases.layer_cases import LayerCase
from tests.support.processes.subprocess_python import run_python
from tests.support.sessions import initialized_session

CASE = LayerCase("dynamic", True, "int64", dim=3)


def test_in_tensorflow2(graph):
    assert kit_lib.in_tensorflow2() is True


@pytest.mark.parametrize("call", ["disable_v2_behavior", "disable_eager_execution"])
def test_not_in_tensorflow2_where_the_script_says_so(call):
    printed = run_python(f"""
        import tensorflow as tf
        tf.compat.v1.{call}()
        from sparse_operation_kit import kit_lib
        print(kit_lib.in_tensorflow2())
    """)
    assert printed == "False"


def test_gen_random_seed(graph):
    given, drawn = kit_lib.gen_random_seed(seed=-5), kit_lib.gen_random_seed()
    assert drawn.shape == given.shape == [1] and drawn.dtype == given.dtype == tf.int64
    with tf.compat.v1.Session() as session:
        assert session.run(given).tolist() == [-5]
        numbers = [int(session.run(drawn)[0]) for _ in range(3)]
    assert len(set(numbers)) == 3 and all(1 <= number <= 2**62 for number in numbers)


def test_read_and_assign_sub(sok):
    layer = CASE.make_layer(capacity=2)
    table, output = layer.embedding_variable, layer(tf.constant([8, 3], tf.int64))
    read = kit_lib.read_embedding_variable(table.emb_handle, table.tf_handle, tf.float32, "name")
    (gradient,) = tf.gradients(tf.reduce_sum(read), [table.tf_handle])
    delta = tf.ones([2, 3])
    update = kit_lib.embedding_variable_assign_sub(table.emb_handle, table.tf_handle, delta)
    with initialized_session() as session:
        rows = session.run(output)
        np.testing.assert_array_equal(session.run(read), rows)
        np.testing.assert_array_equal(session.run(gradient), np.ones([2, 3]))
        session.run(update)
        np.testing.assert_array_equal(session.run(read), rows - 1)
    with pytest.raises(ValueError, match="rows are float32, got dtype float16"):
        kit_lib.read_embedding_variable(table.emb_handle, table.tf_handle, tf.float16)


def test_files_by_handle(sok, tmp_path):
    table = CASE.make_layer().embedding_variable
    handle = table.emb_handle
    load = kit_lib.load_embedding_values(handle, tf.ones([4, 3]))
    dump = kit_lib.dump_to_file(handle, str(tmp_path))
    restore = kit_lib.restore_from_file(handle, str(tmp_path))
    with initialized_session() as session:
        statuses = []
        for op in (load, dump, table.initializer, restore):
            statuses.append(session.run(op))
        assert statuses == [b"loaded.", b"saved.", None, b"restored."]
        assert session.run(table.num_keys()) == 4
    with pytest.raises(ValueError, match="sok.Saver takes the variable itself"):
        kit_lib.dump_to_file(table.tf_handle, str(tmp_path))


def test_raw_ops_in_eager_mode(tmp_path):
    sok_compat.Init(global_batch_size=4)
    table = CASE.make_layer(capacity=4).embedding_variable
    handle, folder = table.emb_handle, str(tmp_path)
    rows = tf.reshape(tf.range(12.0), [4, 3])
    assert kit_lib.load_embedding_values(handle, rows) == b"loaded."
    assert tf.function(lambda: kit_lib.dump_to_file(handle, folder))() == b"saved."
    kit_lib.embedding_variable_assign_sub(handle, table.tf_handle, tf.ones([4, 3]))
    read = kit_lib.read_embedding_variable(handle, table.tf_handle)
    np.testing.assert_array_equal(read, rows - 1.0)
    assert kit_lib.restore_from_file(handle, folder) == b"restored."
    np.testing.assert_array_equal(kit_lib.read_embedding_variable(handle, table.tf_handle), rows)
    del table
    gc.collect()
    with pytest.raises(ValueError, match="of an existing EmbeddingVariable"):
        kit_lib.dump_to_file(handle, folder)


@pytest.mark.parametrize("name", kit_lib.REFUSED)
def test_refused_ops_say_what_to_use(name):
    why, instead = kit_lib.REFUSED[name]
    op = getattr(kit_lib, name)
    assert op.__name__ == name and why in op.__doc__
    with pytest.raises(NotImplementedError) as raised:
        op(1, keyword=2)
    assert all(part in str(raised.value) for part in (name, why, instead))
