# SPDX-License-Identifier: Apache-2.0
"""Trains variables of SparseOperationKit 2 on this rank's part of global batches: eagerly, in a
function and in a graph. Saves the first ones, or restores those that other ranks have saved.

Arguments: the path of the checkpoint, and 'save' or 'restore'.
"""

import os
import sys

import numpy as np
import sparse_operation_kit as sok
import tensorflow as tf

from sok_compat.runtime.tf_versions import keras
from sok_compat.sparse_operation_kit.lookup import group_lookup
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config

tf1 = tf.compat.v1
legacy = keras.optimizers.legacy
STEPS, BATCH, NUM_ROWS = 3, 12, 21
KEYS = [-(2**63), 2**63 - 1, -3, -2, -1, 0, 1, 2, 3, 5, 8]
KINDS = [tf.int64, tf.int64, tf.float32] * 2  # of `batch` for dynamic, and for static variables
COMBINERS = ["sum", "Mean", "AVERAGE", "sum", "mean", "sum"]


def make_variables(prefix):
    rows = np.random.default_rng(1).normal(size=(NUM_ROWS, 3))
    last = f"localized:{SIZE - 1}"
    return [
        sok.DynamicVariable(4, None, "hbm", name=f"{prefix}_hbm"),
        sok.DynamicVariable(3, None, "hybrid", name=f"{prefix}_hybrid"),
        sok.DynamicVariable(2, "uniform", mode=last, name=f"{prefix}_owned"),
        sok.Variable(rows, name=f"{prefix}_given"),
        sok.Variable(shape=(NUM_ROWS, 2), initializer="he_normal", name=f"{prefix}_drawn"),
        sok.Variable(rows, mode="localized:0", name=f"{prefix}_local"),
    ]


def batch(step, dynamic):
    """(keys, row lengths, weights) of this rank's part, which differs in size from the others'."""
    rng = np.random.default_rng([step, dynamic])
    lengths = rng.integers(0, 4, BATCH)
    keys = rng.choice(KEYS, lengths.sum()) if dynamic else rng.integers(0, NUM_ROWS, lengths.sum())
    weights = rng.uniform(0.5, 1.5, lengths.sum()).astype(np.float32)
    ends = [BATCH * (rank + step) // SIZE for rank in range(SIZE + 1)]
    begin, end = min(ends[RANK], BATCH), min(ends[RANK + 1], BATCH)
    begin = 0 if RANK == 0 else begin
    end = BATCH if RANK == SIZE - 1 else end
    first, last = lengths[:begin].sum(), lengths[:end].sum()
    return keys[first:last].astype(np.int64), lengths[begin:end], weights[first:last]


def ragged(values, lengths):
    return tf.RaggedTensor.from_row_lengths(values, tf.cast(lengths, tf.int64))


def loss_of(variables, dynamic, static):
    ids = [ragged(*dynamic[:2])] * 3 + [ragged(*static[:2]).to_sparse()] * 3
    weights = [
        None,
        ragged(*dynamic[2:0:-1]).to_sparse(),
        None,
        None,
        ragged(*static[2:0:-1]),
        None,
    ]
    outputs = sok.lookup_sparse(variables, ids, weights, COMBINERS)
    return tf.add_n([tf.reduce_sum(tf.sin(each) ** 2) for each in outputs])


def train(variables, optimizers, dynamic, static):
    with tf.GradientTape() as tape:
        loss = loss_of(variables, dynamic, static)
    pairs = list(zip(tape.gradient(loss, variables), variables))
    optimizers[0].apply_gradients(pairs[:3])
    optimizers[1].apply_gradients(pairs[3:])
    return loss


def make_optimizers():
    return sok.OptimizerWrapper(legacy.Adam(0.05)), legacy.Adagrad(0.05)


def rows_of(variables):
    """[{key: row}] of this rank."""
    return by_key([x.numpy() for x in each.export()] for each in variables)


def by_key(exported):
    return [dict(zip(keys.tolist(), rows)) for keys, rows in exported]


def train_eagerly(variables, optimizers, as_function):
    def step(*parts):
        return train(variables, optimizers, parts[:3], parts[3:])

    signature = [tf.TensorSpec([None], kind) for kind in KINDS]
    run = tf.function(step, input_signature=signature) if as_function else step
    return [
        run(*map(tf.constant, (*batch(number, True), *batch(number, False)))).numpy()
        for number in range(STEPS)
    ]


def train_in_graph(path, task):
    with tf.Graph().as_default():
        variables = make_variables("graph")
        fed = [tf1.placeholder(kind, [None]) for kind in KINDS]
        loss = loss_of(variables, fed[:3], fed[3:])
        gradients = tf.gradients(loss, variables)
        pairs = list(zip(gradients, variables))
        wrapper = sok.OptimizerWrapper(tf1.train.AdamOptimizer(0.05))
        done = [wrapper.apply_gradients(pairs[:3])]
        with sok.OptimizerScope(variables[3:]):
            done.append(tf1.train.AdagradOptimizer(0.05).apply_gradients(pairs[3:]))
        exported = [each.export() for each in variables]
        saver = tf1.train.Saver()
        with tf1.Session(config=session_config()) as session:
            session.run(tf1.global_variables_initializer())
            values = [(*batch(number, True), *batch(number, False)) for number in range(STEPS)]
            losses = []
            for one in values:
                before = sok.communication_stats().exchanges
                losses.append(session.run([loss, *done], dict(zip(fed, one)))[0])
            exchanges = sok.communication_stats().exchanges - before
            trained = by_key(session.run(exported))
            if task == "save":
                saver.save(session, path)
            else:
                session.run(tf1.global_variables_initializer())
                saver.restore(session, path)
            restored = by_key(session.run(exported))
        return {
            "graph": losses,
            "exchanges": exchanges,
            "rows of the graph": trained,
            "restored in the graph": restored,
        }


def collectives():
    tool = sok.communication
    received, splits = tool.alltoall(tf.fill([SIZE], RANK))
    return {
        "ids": (tool.rank(), tool.num_ranks(), tool.global_gpu_id(), tool.num_gpus()),
        "received": received.numpy().tolist(),
        "splits": splits.numpy().tolist(),
        "sums": [float(tool.allreduce(RANK + 1.0, op)) for op in ("sum", "average", "max", "min")],
        "gathered": tool.allgather([RANK]).numpy().tolist(),
        "broadcast": int(tool.broadcast(RANK + 5, 0)),
    }


def calls(folder):
    """Lookups without pooling, assignments, and dumps that fail, of these variables."""
    variables = make_variables("calls")
    parts = [np.array(KEYS)[RANK::SIZE]] * 3 + [np.arange(RANK, NUM_ROWS, SIZE)] * 3
    keys = [tf.constant(part, tf.int64) for part in parts]

    def found_by(look_up):
        return by_key(zip(parts, [rows.numpy() for rows in look_up()]))

    def one_by_one(look_up):
        return lambda: [look_up(*pair) for pair in zip(variables, keys)]

    found = {
        "dense": found_by(one_by_one(sok.all2all_dense_embedding)),
        "group": found_by(lambda: group_lookup(variables, keys)),
    }
    for optimizer in (sok.SGD(0.1), sok.OptimizerWrapper(keras.optimizers.Adam(0.1))):
        with tf.GradientTape() as tape:
            rows = one_by_one(tf.nn.embedding_lookup)()
            loss = tf.add_n([tf.reduce_sum(each**2) for each in rows])
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    for each in variables[:3]:
        own, rows = sok.export(each)
        sok.assign(each, own, 2 * rows)
    before = rows_of(variables)
    found["after"] = found_by(one_by_one(tf.nn.embedding_lookup))
    wide = sok.DynamicVariable(7, name="wide")
    sok.all2all_dense_embedding(wide, [RANK])
    sok.dump(folder, [wide])
    header = sok.dump_load.file_stem(wide.name)
    for part in ("key", "weight"):
        if RANK == 0:
            os.replace(f"{folder}/{header}-{part}", f"{folder}/calls_hbm_0-{part}")
    found["errors"] = [
        error_of(lambda: sok.dump(__file__, variables)),
        error_of(lambda: sok.load(folder, variables)),
    ]
    for one, other in zip(before, rows_of(variables)):
        assert one.keys() == other.keys(), (one.keys(), other.keys())
        assert all((other[key] == row).all() for key, row in one.items())
    key = tf.constant([(RANK + 1) % SIZE], tf.int64)
    found["errors"].append(error_of(lambda: sok.assign(variables[0], key, [[0.0] * 4])))
    return found


def written(folder):
    """Static variables that are written before any lookup, saved, and looked up once restored."""
    found = []
    for num_rows in (NUM_ROWS, 3):  # fewer than 4 ranks
        for mode in (None, f"localized:{SIZE - 1}"):
            rows = np.arange(2.0 * num_rows).reshape(num_rows, 2)
            table, other = (sok.Variable(0 * rows, mode=mode, name=f"w{i}") for i in range(2))
            owned = np.flatnonzero(table.placement.is_owned(np.arange(num_rows)))
            of_rank = np.zeros(table.shape)
            of_rank[: len(owned)] = rows[owned]
            table.assign(of_rank)
            table.scatter_add(tf.IndexedSlices(rows[owned], np.arange(len(owned))))
            tf.train.Checkpoint(table=other).read(tf.train.Checkpoint(table=table).write(folder))
            keys = np.arange(RANK, num_rows, SIZE)
            found.append(dict(zip(keys.tolist(), sok.all2all_dense_embedding(other, keys).numpy())))
    return found


def error_of(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return None


def main():
    path, task = sys.argv[1:]
    sok.init()
    found = {"collectives": collectives()}
    variables, optimizers = make_variables("eager"), make_optimizers()
    objects = tf.train.Checkpoint(variables=variables, optimizers=list(optimizers))
    found["eager"] = train_eagerly(variables, optimizers, False)
    found["shapes"] = [each.shape.as_list() for each in variables]
    found["rows"] = rows_of(variables)
    if task == "save":
        objects.write(path)
        found["restored"] = found["rows"]
    else:
        objects.read(path)
        found["restored"] = rows_of(variables)
    found["after"] = train_eagerly(variables, optimizers, False)
    others = make_variables("function")
    found["function"] = train_eagerly(others, make_optimizers(), True)
    found.update(train_in_graph(f"{path}_of_graph", task))
    found["calls"] = calls(f"{path}-{SIZE}")
    found["written"] = written(f"{path}-written-{SIZE}")
    report(found)


main()
