# SPDX-License-Identifier: Apache-2.0
"""Trains tables eagerly, saves them with tf.train.Checkpoint and Keras, restores what other numbers
of ranks have saved, and trains on.

Arguments: 'save FOLDER', 'resume FOLDER', 'disks FOLDER', 'backup FOLDER', 'fail FOLDER' each.
"""

import contextlib
import gc
import os
import resource
import signal
import sys
import tempfile
from unittest import mock

import numpy as np
import tensorflow as tf

import sok_compat as sok
from sok_compat.runtime.tf_versions import keras
from tests.distributed.workers.ranks import RANK, SIZE, report, wait_for_all_ranks

ROOM, DIM, BATCH = 24, 3, 12  # keys, over all ranks, of a table without a hash table
_NUMBERS = np.random.default_rng(3)
BATCHES = [_NUMBERS.integers(0, ROOM, BATCH) for _ in range(6)]  # of all ranks
FIRST, LAST = BATCHES[:3], BATCHES[3:]
OPTIMIZERS = {
    "legacy Adagrad": lambda: keras.optimizers.legacy.Adagrad(0.1),
    "Adam": lambda: keras.optimizers.Adam(0.1),
    "sok Adam": lambda: sok.optimizers.Adam(0.1),
}


def part(keys):
    return tf.constant(keys[RANK::SIZE], tf.int64)


def rows_of(table):
    """{key: row}; of a table without a hash table, the keys of all ranks' rooms."""
    keys, rows = (tensor.numpy() for tensor in table.export())
    return dict(zip(keys.tolist(), rows))


class Model(tf.Module):
    """Two tables and an ordinary variable, and an optimizer that trains the tables."""

    def __init__(self, seed, optimizer):
        sok.Init(global_batch_size=BATCH, seed=seed)
        make = sok.All2AllDenseEmbedding
        self.hash = make(ROOM, DIM, 1, 1, dynamic_input=True)
        self.direct = make(ROOM // SIZE, DIM, 1, 1, use_hashtable=False, dynamic_input=True)
        self.dense = tf.Variable([1.0, 2.0])
        self.optimizer = OPTIMIZERS[optimizer]()
        self.step = tf.function(self._step, reduce_retracing=True)

    @property
    def tables(self):
        return [self.hash.embedding_variable, self.direct.embedding_variable]

    def _step(self, keys):
        with tf.GradientTape() as tape:
            loss = sum(tf.reduce_sum(tf.sin(x(keys))) for x in (self.hash, self.direct)) / BATCH
        gradients = tape.gradient(loss, self.tables)
        with sok.OptimizerScope(self.tables):
            self.optimizer.apply_gradients(zip(gradients, self.tables))
        self.dense.assign_add(2 * self.dense)

    def train(self, batches):
        for keys in batches:
            self.step(part(keys))

    def contents(self):
        return [rows_of(table) for table in self.tables], self.dense.numpy()


def checkpoint_of(model):
    return tf.train.Checkpoint(model=model)


def save(folder):
    """Of each optimizer: what is saved, and what comes of it without a stop."""
    seen = {}
    for name in OPTIMIZERS:
        model = Model(5, name)
        manager = tf.train.CheckpointManager(checkpoint_of(model), f"{folder}/{name}", 2)
        for number, keys in enumerate(FIRST, 1):
            model.train([keys])
            assert manager.save() == manager.latest_checkpoint
            assert tf.train.latest_checkpoint(f"{folder}/{name}") == manager.latest_checkpoint
            assert manager.latest_checkpoint.endswith(f"-{number}")
        assert [path[-2:] for path in manager.checkpoints] == ["-2", "-3"]
        saved = model.contents()
        written = checkpoint_of(model).write(f"{folder}/{name} written")
        assert written == f"{folder}/{name} written"
        model.train(LAST)
        seen[name] = saved, model.contents()
    return {**seen, "keras": save_weights(folder)}


def resume(folder):
    """Of each optimizer: what is restored, and what comes of it; into other objects, before the
    optimizer has slots, and over what is there. The seed is another one."""
    seen = {}
    for name in OPTIMIZERS:
        late = tf.train.Checkpoint()
        status = late.restore(tf.train.latest_checkpoint(f"{folder}/{name}"))
        late.model = model = Model(77, name)
        restored = model.contents()
        model.train(LAST)
        status.assert_existing_objects_matched()
        seen[name] = restored, model.contents()
        status = checkpoint_of(model).read(f"{folder}/{name} written")
        status.assert_consumed()
        again = model.contents()
        model.train(LAST)
        seen[f"{name} again"] = again, model.contents()
    return {**seen, "keras": load_weights(folder)}


def compiled(seed):
    """A Keras model of a table, and the table."""
    sok.Init(global_batch_size=BATCH, seed=seed)
    layer = sok.All2AllDenseEmbedding(ROOM, DIM, 1, 1)
    inputs = keras.Input([1, 1], dtype=tf.int64)
    dense = keras.layers.Dense(1, kernel_initializer="ones", trainable=False)
    model = keras.Model(inputs, dense(keras.layers.Flatten()(layer(inputs))))
    model.compile(keras.optimizers.Adam(0.1), keras.losses.MeanSquaredError(reduction="sum"))
    return model, layer.embedding_variable


def fit(model, batches, callbacks=(), epochs=1):
    keys = np.concatenate([batch[RANK::SIZE] for batch in batches]).reshape(-1, 1, 1)
    labels = np.sin(keys[:, 0].astype(np.float32))
    model.fit(
        keys, labels, batch_size=BATCH // SIZE, epochs=epochs, shuffle=False, verbose=0,
        callbacks=list(callbacks),
    )  # fmt: skip


def save_weights(folder):
    model, table = compiled(5)
    fit(model, FIRST, [keras.callbacks.ModelCheckpoint(f"{folder}/called", save_weights_only=True)])
    saved = rows_of(table)
    model.save_weights(f"{folder}/weights")
    fit(model, LAST)
    return saved, rows_of(table)


def load_weights(folder):
    model, table = compiled(77)
    model.load_weights(f"{folder}/called")
    fit(model, LAST)
    model.load_weights(f"{folder}/weights")
    restored = rows_of(table)
    fit(model, LAST)
    return restored, rows_of(table)


def save_on_own_disks(folder):
    """As save and resume, where each rank has a folder of its own and rank 0 all the files."""
    mine = f"{folder}/disk of {RANK}"
    os.makedirs(f"{mine}/copies")
    with (
        mock.patch.dict(os.environ, {"SOK_CHECKPOINTS_ON_RANK_0": "1"}),
        mock.patch.object(tempfile, "tempdir", f"{mine}/copies"),
    ):
        seen = see_own_disk(f"{mine}/kept")
        gc.collect()
        return {**seen, "copies": os.listdir(f"{mine}/copies"), "files": os.listdir(f"{mine}/kept")}


def see_own_disk(folder):
    model = Model(5, "Adam")
    manager = tf.train.CheckpointManager(checkpoint_of(model), folder, 2)
    for keys in FIRST:
        model.train([keys])
        manager.save()
    saved = model.contents()
    model.train(LAST)
    trained = model.contents()
    late = tf.train.Checkpoint()
    status = late.restore(tf.train.latest_checkpoint(folder))
    late.model = other = Model(77, "Adam")
    restored = other.contents()
    other.train(LAST)
    status.assert_existing_objects_matched()
    latest = tf.train.CheckpointManager(checkpoint_of(model), folder, 2).restore_or_initialize()
    return {
        "saved": (saved, restored, model.contents()),
        "trained": (trained, other.contents()),
        "names": [os.path.basename(path) for path in (*manager.checkpoints, latest)],
        "missing": outcome(lambda: late.restore(f"{folder}/ckpt-9")),
    }


class Stopped(Exception):
    """As if the job had been stopped."""


class Epochs(keras.callbacks.Callback):
    """Which ones there were; stops after the one called `last`."""

    def __init__(self, last=None):
        super().__init__()
        self.seen, self._last = [], last

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append(epoch)
        if epoch == self._last:
            raise Stopped


def back_up(folder):
    """Rows after three epochs, of which the last one is another model's after a stop, or is not;
    and which epochs came after the stop."""
    model, table = compiled(5)
    with contextlib.suppress(Stopped):
        fit(model, FIRST, [keras.callbacks.BackupAndRestore(folder), Epochs(last=1)], epochs=3)
    fit(model, FIRST, epochs=3)  # Keras goes on with the third one, as the model was stopped
    expected = rows_of(table)
    model, table = compiled(77)
    epochs = Epochs()
    fit(model, FIRST, [keras.callbacks.BackupAndRestore(folder), epochs], epochs=3)
    wait_for_all_ranks()
    return {"rows": (expected, rows_of(table)), "epochs": epochs.seen, "left": os.listdir(folder)}


@contextlib.contextmanager
def small_files(num_bytes):
    """No file grows beyond that, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def fail(folder):
    """[(error, message)] of saves that fail, and what is restored after them."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    model = Model(5, "Adam")
    checkpoint = checkpoint_of(model)
    model.train(FIRST)
    checkpoint.save(f"{folder}/good/model")
    saved = model.contents()
    model.train(LAST)

    def save_to_full_disk():
        with small_files(100) if RANK == SIZE - 1 else contextlib.nullcontext():
            checkpoint.save(f"{folder}/good/model")

    def save_on_rank_0():
        if RANK == 0:
            checkpoint.save(f"{folder}/good/model")

    seen = {
        "full": outcome(save_to_full_disk),
        "other paths": outcome(lambda: checkpoint.save(f"{folder}/of {RANK}/model")),
    }
    seen["latest"] = tf.train.latest_checkpoint(f"{folder}/good")
    checkpoint.restore(seen["latest"]).assert_consumed()
    seen["contents"] = saved, model.contents()
    wait_for_all_ranks()
    report({"fail": {**seen, "alone": outcome(save_on_rank_0)}})


def outcome(do):
    try:
        do()
    except tf.errors.OpError as error:
        return type(error).__name__, str(error)
    return None, ""


if __name__ == "__main__":
    if sys.argv[1].startswith("fail "):
        fail(sys.argv[1].partition(" ")[2])
    else:
        tasks = [(what, *what.split(" ")) for what in sys.argv[1:]]
        functions = {
            "save": save, "resume": resume, "disks": save_on_own_disks, "backup": back_up
        }  # fmt: skip
        report({what: functions[do](where) for what, do, where in tasks})
    assert os.path.isdir(sys.argv[1].partition(" ")[2])
