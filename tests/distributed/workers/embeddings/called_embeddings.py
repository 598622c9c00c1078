# SPDX-License-Identifier: Apache-2.0
"""DistributedEmbedding of layers that are called as they are; ids of no row, which one rank has;
what AutoGraph says of a script's usual loop; and ids sent to owners."""

import logging

import numpy as np
import tensorflow as tf

from sok_compat.distributed_embeddings.python.layers import dist_model_parallel as dmp
from sok_compat.distributed_embeddings.python.layers.embedding import Embedding
from sok_compat.runtime.tf_versions import keras
from tests.distributed.workers.ranks import RANK, SIZE, hvd
from tests.support.cases.layers_of_scripts import Doubled

BATCH = 12
PART = slice(BATCH * RANK // SIZE, BATCH * (RANK + 1) // SIZE)


def called_layers():
    """(shapes of the outputs, weights of all tables after some steps)"""
    keras.backend.clear_session()
    layers = [
        Doubled(6, 2),
        Embedding(7, 4, combiner="sum", embeddings_regularizer="l2"),
        Embedding(5, 3, combiner="mean", embeddings_constraint="non_neg"),
        *(Embedding(8 + i, 4, combiner="sum") for i in range(4)),
    ]
    rng = np.random.default_rng(3)
    layer = dmp.DistributedEmbedding(layers)
    sizes = [layer.strategy.shape(table) for table in range(len(layers))]
    batches = [[rng.integers(0, rows, [BATCH, 1]) for rows, _ in sizes] for _ in range(3)]
    layer([one[PART] for one in batches[0]])
    layer.set_weights([rng.normal(size=size) for size in sizes])
    optimizer = keras.optimizers.SGD(0.5)
    for batch in batches:
        with tf.GradientTape() as tape:
            outputs = layer([one[PART] for one in batch])
            squares = [tf.reduce_sum(output**2) / len(output) for output in outputs]
            loss = sum(squares) + sum(layer.losses)
        variables = layer.trainable_variables
        gradients = dmp.DistributedGradientTape(tape).gradient(loss, variables)
        optimizer.apply_gradients(zip(gradients, variables))
    return [output.shape.as_list() for output in outputs], layer.get_weights(True)


def ids_of_no_row():
    """[([error, its message] of a call in which the last rank has such an id, outputs of the next
    call)] of plans."""
    found = []
    for options in ({}, {"data_parallel_threshold": 9}, {"dp_input": False}):
        keras.backend.clear_session()
        layers = [
            Embedding(4 + i, 2, "ones", combiner="sum", name=f"of{i}") for i in range(2 * SIZE)
        ]
        layer = dmp.DistributedEmbedding(layers, **options)
        own = len(layers) if layer.dp_input else len(layer.strategy.input_ids_list[RANK])
        batch = 2 if layer.dp_input else 2 * SIZE
        ids = [np.zeros([batch, 2], int) for _ in range(own)]
        layer(ids)
        wrong = [ids[0] + 400 * (RANK == SIZE - 1), *ids[1:]]
        error = None
        try:
            layer(wrong)
        except tf.errors.OpError as raised:
            error = type(raised).__name__, str(raised)
        found.append((error, [output.numpy() for output in layer(ids)]))
    return found


def warnings_of_autograph():
    """What it logs in the first step of a script's usual loop."""
    keras.backend.clear_session()
    logged = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())
    layers = [Embedding(6 + i, 4, combiner="sum") for i in range(SIZE)]
    layer, optimizer = dmp.DistributedEmbedding(layers), keras.optimizers.legacy.SGD(0.1)

    @tf.function
    def step(*ids):
        with tf.GradientTape() as tape:
            loss = sum(tf.reduce_sum(output) for output in layer(list(ids)))
        if hvd is not None:
            hvd.allreduce(loss, op=hvd.Sum)
            hvd.allgather(tf.reshape(loss, [1]))
        tape = dmp.DistributedGradientTape(tape)
        variables = layer.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        dmp.broadcast_variables(layer.variables, root_rank=0)

    tf.get_logger().addHandler(handler)
    try:
        step(*[tf.zeros([2, 1], tf.int64)] * SIZE)
    finally:
        tf.get_logger().removeHandler(handler)
    return [message for message in logged if "AutoGraph" in message]


def sent_ids():
    """{input: ids of the whole batch} of this rank, by the names that tests of
    distributed-embeddings import; a rank has one sample of dense inputs, two of ragged ones."""
    ids = [
        tf.constant([[RANK, 10]]),  # int32 beside int64
        tf.ragged.constant([[20 + RANK] * (RANK + 1), []], dtype=tf.int64),
        tf.constant([30 + RANK], tf.int64),
        tf.ragged.constant([[], [40] * RANK], dtype=tf.int64),
    ]
    of_ranks = {rank: [] for rank in range(SIZE)} | {0: [1, 2], SIZE - 1: [3, 0, 1]}
    found = dmp._dp_to_mp_input(ids, of_ranks)
    as_lists = {True: lambda x: x.to_list(), False: lambda x: x.numpy().tolist()}
    return {i: as_lists[isinstance(x, tf.RaggedTensor)](x) for i, x in found.items()}


SHOWN = [called_layers, ids_of_no_row, warnings_of_autograph, sent_ids]
