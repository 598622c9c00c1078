# SPDX-License-Identifier: Apache-2.0
"""DistributedEmbedding in cases that are given in a file, trained on each rank's part of global
batches, beside plain variables on one process that is fed it all.

A case: tables [(rows, columns, combiner, is trained)], inputs [(table, hotness, dtype)], where 0 is
ragged and -1 sparse, options of the layer, optimizer, steps, whether as_function, and a seed.
"""

import json
import sys

import numpy as np
import tensorflow as tf

from sok_compat.distributed_embeddings.python.layers import dist_model_parallel as dmp
from sok_compat.distributed_embeddings.python.layers.embedding import Embedding
from sok_compat.runtime.tf_versions import keras
from tests.distributed.workers.embeddings import called_embeddings, saved_embeddings
from tests.distributed.workers.ranks import RANK, SIZE, hvd, report

BATCH = 12
legacy = keras.optimizers.legacy
OPTIMIZERS = {
    "SGD": lambda: legacy.SGD(0.5),
    "Adagrad": lambda: legacy.Adagrad(0.1),
    "Adam": lambda: keras.optimizers.Adam(0.05),
}
WHOLE = slice(0, BATCH)
PART = slice(BATCH * RANK // SIZE, BATCH * (RANK + 1) // SIZE)


def global_batch(case, rng):
    """For each input, a list of lists of ids."""
    batch = []
    for table, hotness, _ in case["inputs"]:
        sizes = rng.integers(0, 4, BATCH) if hotness < 1 else [hotness] * BATCH
        rows = case["tables"][table][0]
        batch.append([rng.integers(0, rows, size).tolist() for size in sizes])
    return batch


def tensor(bags, hotness, dtype):
    ids = tf.ragged.constant(bags, dtype=dtype, ragged_rank=1)
    if hotness == -1:
        return ids.to_sparse()
    return ids if hotness == 0 else tf.reshape(ids.flat_values, [-1, hotness])


def fed(case, batch, of, inputs=None):
    """The part `of` the batch, as tensors, of all inputs or of these."""
    inputs = range(len(batch)) if inputs is None else inputs
    return [tensor(batch[i][of], *case["inputs"][i][1:]) for i in inputs]


class Plain:
    """The same tables as variables."""

    def __init__(self, case, rows):
        self._case = case
        self.variables = [
            tf.Variable(table, trainable=trained)
            for table, (*_, trained) in zip(rows, case["tables"])
        ]
        self.trainable_variables = [one for one in self.variables if one.trainable]

    def __call__(self, ids):
        outputs = []
        for one, (table, *_) in zip(ids, self._case["inputs"]):
            one = tf.RaggedTensor.from_sparse(one) if isinstance(one, tf.SparseTensor) else one
            rows = tf.gather(self.variables[table], one)
            lengths = tf.cast(tf.maximum(tf.reduce_sum(tf.ones_like(one), 1), 1), tf.float32)
            is_mean = self._case["tables"][table][2] == "mean"
            outputs.append(tf.reduce_sum(rows, 1) / (lengths[:, None] if is_mean else 1.0))
        return outputs


def loss_of(outputs, dense):
    outputs = [tf.reshape(output, [-1, output.shape[-1]]) for output in outputs]
    return tf.reduce_mean((tf.tanh(tf.concat(outputs, 1)) @ dense - 0.7) ** 2)


def train(layer, dense, case, feeds, is_distributed):
    """The losses."""
    optimizer = OPTIMIZERS[case["optimizer"]]()
    as_function = is_distributed and case["as function"]

    def step(*ids):
        tape = tf.GradientTape()
        tape = dmp.DistributedGradientTape(tape) if as_function else tape
        with tape:
            loss = loss_of(layer(list(ids)), dense)
        if is_distributed and not as_function:
            tape = dmp.DistributedGradientTape(tape)
        variables = [*layer.trainable_variables, dense]
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    run = tf.function(step) if as_function else step
    return [float(run(*ids)) for ids in feeds]


def planned(case):
    """The layer; with tables cut in as many slices as there can be, or by 'auto', where the ranks
    would not all get one."""
    options = dict(case["options"])
    workload = dmp.Workload(batch_size=BATCH, hotness=[abs(h) or 1 for _, h, _ in case["inputs"]])
    for changed in ({}, {"column_slice_threshold": 1}, None):
        layers = [
            Embedding(rows, columns, combiner=combiner, trainable=trained)
            for rows, columns, combiner, trained in case["tables"]
        ]
        if changed is None:
            options = {"strategy": "auto", "dp_input": options.get("dp_input", True)}
        try:
            return dmp.DistributedEmbedding(
                layers,
                input_table_map=[table for table, *_ in case["inputs"]],
                workload=workload,
                **{**options, **(changed or {})},
            )
        except ValueError as error:
            if "Not enough table" not in str(error):
                raise
    raise AssertionError("'auto' leaves no rank without a plan")


def run_case(case):
    rng = np.random.default_rng(case["seed"])
    keras.backend.clear_session()
    layer = planned(case)
    inputs, of = None, PART
    if not layer.dp_input:
        inputs, of = layer.strategy.input_ids_list[RANK], WHOLE
    batches = [global_batch(case, rng) for _ in range(case["steps"])]
    feeds = [fed(case, batch, of, inputs) for batch in batches]
    layer(feeds[0])
    first = layer.get_weights(all_ranks=True)
    given = [rng.normal(size=size[:2]).astype(np.float32) for size in case["tables"]]
    layer.set_weights(given, chunk=20, use_lock=case["as function"])
    as_set = layer.get_weights(all_ranks=True)
    outputs = [output.numpy() for output in layer(feeds[0])]
    dense = tf.Variable(first_dense(case))
    losses = train(layer, dense, case, feeds, True)
    of_rank_0 = layer.get_weights()
    return {
        "first": first,
        "given": given,
        "as set": as_set,
        "outputs": outputs,
        "losses": losses,
        "trained": [*layer.get_weights(all_ranks=True), dense.numpy()],
        "num of rank 0": len(of_rank_0),
        "local": [hasattr(variable, "de_local") for variable in layer.weights],
        "table groups": layer.strategy.table_groups,
        "plain": one_process(case, given, batches) if RANK == 0 else None,
    }


def first_dense(case):
    width = sum(case["tables"][table][1] for table, *_ in case["inputs"])
    return np.full([width, 1], 0.1, np.float32)


def one_process(case, given, batches):
    """The same of plain variables and the whole batch."""
    plain, dense = Plain(case, given), tf.Variable(first_dense(case))
    feeds = [fed(case, batch, WHOLE) for batch in batches]
    outputs = [output.numpy() for output in plain(feeds[0])]
    losses = train(plain, dense, case, feeds, False)
    trained = [variable.numpy() for variable in (*plain.variables, dense)]
    return {"outputs": outputs, "losses": losses, "trained": trained}


def gradients_of_ranks():
    """{how: column 0 of the gradient of the first table, of what this rank has of it}; rank r looks
    up r and 3, and its loss is r + 1 times the sum. Beside it is a second layer."""
    found = {}
    for plan in ({}, {"data_parallel_threshold": 8}):
        keras.backend.clear_session()
        layer, beside = (
            dmp.DistributedEmbedding([Embedding(4, 2), Embedding(4, 2)], **plan) for _ in range(2)
        )
        ids = [tf.constant([RANK, 3])] * 2
        for how, wrap in (
            ("bare", lambda tape: tape),
            ("mean", dmp.DistributedGradientTape),
            ("sum", lambda tape: dmp.DistributedGradientTape(tape, op=hvd.Sum)),
        ):
            with tf.GradientTape() as tape:
                first, second = layer(ids), beside(ids)
                loss = (RANK + 1) * tf.reduce_sum(first[0]) + 0 * tf.reduce_sum(second[1])
                loss += 0 * (tf.reduce_sum(first[1]) + tf.reduce_sum(second[0]))
            variables = [*layer.trainable_variables, *beside.trainable_variables]
            gradient = tf.convert_to_tensor(wrap(tape).gradient(loss, variables)[0])
            found[f"{how} {'copy' if plan else 'table'}"] = gradient[:4, 0].numpy()
    return found


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        to_run = json.load(file)
    cases = {name: run_case(case) for name, case in to_run.items()}
    reported = {"cases": cases}
    if len(sys.argv) > 2:  # a folder: not for cases alone
        reported["gradients"] = gradients_of_ranks() if SIZE == 2 else None
        for save in saved_embeddings.WAYS:
            reported[save.__name__] = save(sys.argv[2])
        reported["other batches"] = saved_embeddings.other_batches()
        for show in called_embeddings.SHOWN:
            reported[show.__name__] = show()
    report(reported)
