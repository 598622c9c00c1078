# SPDX-License-Identifier: Apache-2.0
"""Where tables are, and that all of their ops can be there."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels, op_def_registry

from sok_compat.runtime import devices
from sok_compat.runtime.op_library import ops

tf1 = tf.compat.v1
# Where there are GPUs, TensorFlow's ops update ordinary variables.
OF_ORDINARY = ("SokApplyRuleToVariable", "SokApplyRuleToRefVariable", "SokColumnKeys", "SokStrings")


def our_ops():
    names = [name for name in dir(ops) if name.startswith("Sok")]
    return [name for name in names if op_def_registry.get(name) is not None]


def devices_of(op_type):
    return {kernel.device_type for kernel in kernels.get_registered_kernels_for_op(op_type).kernel}


def producers(op):
    return {tensor.op for tensor in op.inputs}


@pytest.fixture(autouse=True)
def as_named(request):
    if request.config.getoption("--gpu"):
        pytest.skip("with --gpu all tables are on one GPU, whatever is named")


@pytest.fixture
def with_gpus(monkeypatch):
    monkeypatch.setattr(devices, "can_use_gpus", lambda: True)


def layer_and_slot(sok):
    layer = sok.All2AllDenseEmbedding(100, 4, 1, 1, dynamic_input=True)
    output = layer(tf.constant([1, 2, 3], tf.int64))
    table = layer.embedding_variable
    optimizer = tf1.train.MomentumOptimizer(0.1, 0.9)
    with sok.OptimizerScope([table]):
        train = optimizer.apply_gradients([(tf.gradients(output, table)[0], table)])
    return output, table, optimizer.get_slot(table, "momentum"), train


def test_every_op_has_kernels_for_gpus(request):
    if request.config.getoption("--gpu-kernels"):
        pytest.skip("the op library of these tests has no CUDA")
    assert len(our_ops()) > 25
    expected = {"CPU", "GPU"} if devices.has_gpu_kernels() else {"CPU"}
    for name in our_ops():
        assert devices_of(name) >= (expected - {"GPU"} if name in OF_ORDINARY else expected), name


def test_without_a_gpu_tables_are_on_the_cpu(sok):
    with tf.device("/GPU:0"):
        output, table, slot, train = layer_and_slot(sok)
    assert "CPU:0" in table.device and "CPU:0" in slot.device
    init = tf1.global_variables_initializer()
    with tf1.Session(config=tf1.ConfigProto(allow_soft_placement=True)) as session:
        session.run(init)
        before, _ = session.run([output, train])
        assert np.abs(session.run(output) - before).max() > 0


@pytest.mark.parametrize("named", ["", "/CPU:0", "/job:localhost"])
def test_tables_are_on_the_cpu_where_no_gpu_is_named(sok, with_gpus, named):
    with tf.device(named):
        _, table, slot, _ = layer_and_slot(sok)
    assert "CPU:0" in table.device and "CPU:0" in slot.device


@pytest.mark.parametrize("named, expected", [("/GPU:0", "GPU:0"), ("/device:GPU:1", "GPU:1")])
def test_tables_are_on_the_gpu_that_is_named(sok, with_gpus, named, expected):
    """With all that reads and writes them."""
    with tf.device(named):
        output, table, slot, train = layer_and_slot(sok)
    assert expected in table.device and expected in slot.device
    handles = {table.tf_handle.op, table.emb_handle.op, slot.handle.op}
    operations = tf1.get_default_graph().get_operations()
    touching = [op for op in operations if producers(op) & handles]
    assert {"SokFindRows", "SokPoolRows", "SokTableInitialize", "SokTableAttachSlot"} <= {
        op.type for op in touching
    }
    for op in touching:
        assert expected in op.device, op.name
    del output, train


def test_whole_planes_on_a_gpu_are_those_of_rows_in_use(sok, with_gpus):
    """Elsewhere they have no memory: updates go by row, and what is fetched is put together."""
    with tf.device("/GPU:0"):
        _, table, slot, _ = layer_and_slot(sok)
    delta = tf.ones([100, 4])
    for plane in (table, slot):
        update = plane.assign_sub(delta, read_value=False)
        assert update.type == "ResourceScatterSub"
        assert "SokRowsInUse" in {op.type for op in producers(update)}
        fetched = plane.assign_sub(delta)._as_graph_element()
        for read in (plane.value(), plane._as_graph_element(), fetched):
            while read.op.type == "Identity":
                read = read.op.inputs[0]
            assert read.op.type == "SokReadRows"


def test_a_saver_is_where_its_table_is(sok, with_gpus):
    with tf.device("/GPU:1"):
        layer_and_slot(sok)
    tf1.train.Saver()
    for op in tf1.get_default_graph().get_operations():
        if op.type in ("SokSaveTable", "SokRestoreSaved"):
            assert "GPU:1" in op.device
