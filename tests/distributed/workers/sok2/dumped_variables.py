# SPDX-License-Identifier: Apache-2.0
"""Variables of SparseOperationKit 2 that are trained, dumped, trained on and loaded, and a hybrid
one that is full; eagerly, or in a graph. Arguments: the folder to dump to, the one to load from."""

import datetime
import sys

import numpy as np
import tensorflow as tf

import sok_compat as sok
from sok_compat.lookup.find_rows import find_rows
from sok_compat.lookup.new_keys import NewKeys
from sok_compat.runtime.tf_versions import keras
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config

tf1 = tf.compat.v1
BATCH, STEPS, ROWS = 8, 3, 11


class Eager:
    session = None

    def start(self):
        pass

    def __call__(self, make, *arrays):
        return tf.nest.map_structure(lambda x: x.numpy(), make(*map(tf.constant, arrays)))


class Graph:
    def __init__(self):
        self.session = tf1.Session(config=session_config())
        self.made = {}

    def start(self):
        self.session.run(tf1.global_variables_initializer())

    def __call__(self, make, *arrays):
        if make not in self.made:
            inputs = [tf1.placeholder(x.dtype, [None, *x.shape[1:]]) for x in arrays]
            self.made[make] = inputs, make(*inputs)
            if make.__name__ == "train":
                self.start()
        inputs, outputs = self.made[make]
        return self.session.run(outputs, dict(zip(inputs, arrays)))


def variables():
    ones = tf.keras.initializers.Constant(1.0)
    return {
        "static": sok.Variable(shape=(ROWS, 2), initializer=ones, name="static"),
        "local": sok.Variable(
            np.arange(2.0 * ROWS).reshape(ROWS, 2), mode=f"localized:{SIZE - 1}", name="local"
        ),
        "hbm": sok.DynamicVariable(3, "normal", "hbm", name="hbm", key_type=tf.int32),
        "hybrid": sok.DynamicVariable(2, "ones", name="hybrid"),
    }


def by_key(contents):
    """{name: {key: its planes}}, without the row that a rank without keys has."""
    return {
        name: {
            int(key): [array[i].tolist() for array in rest]
            for i, key in enumerate(keys)
            if key < ROWS or name not in ("static", "local")
        }
        for name, (keys, *rest) in contents.items()
    }


def main():
    run = Eager() if tf.executing_eagerly() else Graph()
    sok.init()
    params = variables()
    listed = list(params.values())
    kind = keras.optimizers.legacy.Adamax if run.session is None else tf1.train.AdagradOptimizer
    optimizer = sok.OptimizerWrapper(kind(0.1))

    def loss_of(ids):
        bags = tf.RaggedTensor.from_tensor(ids, row_splits_dtype=tf.int64)
        found = sok.lookup_sparse(listed, [bags] * 4, combiners="sum")
        return tf.add_n([tf.reduce_sum((each - 2.0) ** 2) for each in found]) / BATCH

    def train(ids):
        if run.session is not None:
            loss = loss_of(ids)
            gradients = tf.gradients(loss, listed)
            with tf.control_dependencies([loss]):
                step = optimizer.apply_gradients(zip(gradients, listed))
            with tf.control_dependencies([step]):
                return tf.identity(loss)
        with tf.GradientTape() as tape:
            loss = loss_of(ids)
        optimizer.apply_gradients(zip(tape.gradient(loss, listed), listed))
        return loss

    def contents():
        found = {}
        for name, each in params.items():
            planes = [optimizer.get_slot(each, slot) for slot in optimizer.get_slot_names()]
            keys, rows = each.export()
            ((row_ids,), _) = find_rows([each], [keys], [NewKeys()])
            slots = [
                tf.raw_ops.ResourceGather(resource=plane.handle, indices=row_ids, dtype=tf.float32)
                for plane in planes
            ]
            found[name] = [keys, rows, *slots]
        return found

    rng = np.random.default_rng(3)
    folder, load_from = sys.argv[1:3]

    def train_once():
        run(train, rng.integers(0, ROWS, [BATCH, 2])[RANK::SIZE])

    for _ in range(STEPS):
        train_once()
    seen = {"trained": by_key(run(contents))}
    sok.dump(folder, listed, optimizer, sess=run.session)
    train_once()
    sok.load(folder, listed, optimizer, sess=run.session)
    seen["loaded"] = by_key(run(contents))
    train_once()
    sok.load(load_from, listed, [optimizer], sess=run.session)
    seen["loaded from other ranks"] = by_key(run(contents))
    seen["of rank 0"] = variable_of_rank_0(run, folder, load_from)
    seen["full"] = full_variable(run, folder, load_from)
    seen["filtered"] = filtered_keys(run)
    seen["evicted while training"] = num_evicted_while_training(run)
    report(seen)


def variable_of_rank_0(run, folder, load_from):
    """How many of the rows are right of a variable whose keys are all rank 0's, on 1, 2 or 4 ranks:
    in more memory than a rank's share of them takes."""
    variable = sok.DynamicVariable(1024, "zeros", "hbm", name="of_rank_0")
    keys = 4 * np.arange(2000)
    rows = np.sin(keys[:, np.newaxis] + np.arange(1024)).astype(np.float32)
    if run.session is not None:
        run.session.run(variable.initializer)
    if SIZE == 1:
        update = sok.assign(variable, keys, rows)
        run.session.run(update) if run.session is not None else None
    else:
        sok.load(f"{load_from}/of_rank_0", variable, sess=run.session)
    sok.dump(f"{folder}/of_rank_0", variable, sess=run.session)
    found = dict(zip(*(array.tolist() for array in run(variable.export))))
    return sum(found.get(key) == row for key, row in zip(keys.tolist(), rows.tolist()))


def full_variable(run, folder, restore_from):
    """What a hybrid variable of 8 keys evicts, also once it was restored, and has used since a
    moment."""
    variable = sok.DynamicVariable(2, "ones", max_capacity=8 // SIZE, name="full")
    if run.session is not None:
        run.session.run(variable.initializer)
    read = lambda keys: sok.sparse_read_and_evict(variable, keys)  # noqa: E731
    seen = {"gone": []}
    for first in (0, 4, 8, 6):
        rows, gone, gone_rows = run(read, np.arange(first, first + 4))
        assert rows.tolist() == [[1.0, 1.0]] * 4 and gone_rows.tolist() == [[1.0, 1.0]] * len(gone)
        seen["gone"].append(gone.tolist())
        moment = datetime.datetime.now(datetime.timezone.utc)
    run(read, np.arange(8, 10))
    keys, rows = sok.incremental_dump(variable, moment, sess=run.session)
    seen["since"] = keys[0].tolist(), rows[0].tolist()
    save_and_restore(variable, run.session, f"{folder}/uses", f"{restore_from}/uses")
    seen["gone after restore"] = run(read, np.arange(20, 24))[1].tolist()
    return seen


def filtered_keys(run):
    """The rows of 400 new keys, half of which are to be filtered out."""
    variable = sok.DynamicVariable(2, "ones", filter_ratio=0.5, seed=4, name="filtered")
    if run.session is not None:
        run.session.run(variable.initializer)

    def read(ids):
        bags = tf.RaggedTensor.from_tensor(ids, row_splits_dtype=tf.int64)
        return sok.lookup_sparse(variable, bags, combiners="mean", use_low_frequency_filter=True)

    return run(read, np.arange(400)[:, np.newaxis])[:, 0].tolist()


def num_evicted_while_training(run):
    """Trains a hybrid variable of 8 keys, whose evicted keys and rows must be those of a model."""
    variable, optimizer = sok.DynamicVariable(2, "ones", max_capacity=8 // SIZE), sok.SGD(0.25)

    def train(keys):
        if run.session is None:
            with tf.GradientTape() as tape:
                rows, *gone = sok.sparse_read_and_evict(variable, keys)
            optimizer.apply_gradients([(tape.gradient(rows, variable), variable)])
            return gone
        rows, *gone = sok.sparse_read_and_evict(variable, keys)
        applied = optimizer.apply_gradients([(tf.gradients(rows, variable)[0], variable)])
        with tf.control_dependencies([applied]):
            return [tf.identity(each) for each in gone]

    rng = np.random.default_rng(2)
    rows_by_key, num_evicted = {}, 0  # {key: its row}, the last used last
    for _ in range(20):
        keys = 4 * rng.integers(0, 5, 4) + np.arange(4)  # each rank of 4 has one
        own = keys[keys % SIZE == RANK].tolist()
        for key in sorted(
            own, key=lambda key: (key not in rows_by_key, key)
        ):  # as new ones come later
            rows_by_key[key] = rows_by_key.pop(key, 1.0) - 0.25 * SIZE
        oldest = list(rows_by_key)[: max(0, len(rows_by_key) - 8 // SIZE)]
        gone, rows = run(train, keys)
        assert gone.tolist() == oldest
        assert rows.tolist() == [[rows_by_key.pop(key)] * 2 for key in oldest]
        num_evicted += len(oldest)
    return num_evicted


def save_and_restore(variable, session, path, restored_path):
    if session is None:
        checkpoint = tf.train.Checkpoint(variable=variable)
        checkpoint.write(path)
        checkpoint.read(restored_path).assert_consumed()
    else:
        saver = tf1.train.Saver([variable])
        saver.save(session, path)
        saver.restore(session, restored_path)


if __name__ == "__main__":
    main()
