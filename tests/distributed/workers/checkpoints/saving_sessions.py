# SPDX-License-Identifier: Apache-2.0
"""What stands beside a checkpoint of several ranks, and the sessions that save it.

Arguments: a folder, the same on all ranks. Without Horovod's hooks, which not all releases of
TensorFlow have.
"""

import os
import sys
import time
from pathlib import Path

import tensorflow as tf

import sok_compat as sok
from tests.distributed.workers.monitored_model import KEYS, SLOTS, logits_of
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config, wait_for_all_ranks

tf1 = tf.compat.v1
FOLDER = Path(sys.argv[1])
STOP_AT = 5


class Model:
    """A table, the global step, and a step that trains the table."""

    def __init__(self):
        self.keys = tf1.placeholder(tf.int64, [None, SLOTS, 1])
        self.global_step = tf1.train.get_or_create_global_step()
        logits, _ = logits_of({"keys": self.keys}, True)
        tables, _ = sok.split_embedding_variable_from_others(tf1.trainable_variables())
        gradients = tf.gradients(tf.reduce_sum(logits), tables)
        with sok.OptimizerScope(tables):
            trained = tf1.train.GradientDescentOptimizer(0.1).apply_gradients(
                zip(gradients, tables)
            )
        with tf.control_dependencies([trained]):
            self.step = tf1.assign_add(self.global_step, 1)

    def feed(self):
        """A batch."""
        return {self.keys: KEYS[0, RANK::SIZE]}


def raised_by(work):
    """(class, text, seconds) of what it raises."""
    began = time.time()
    try:
        work()
    except Exception as error:
        return type(error).__name__, str(error), time.time() - began
    return None


def files(folder):
    """Names of what is there but events, whose names tell the time, and data."""
    return sorted(
        file.name
        for file in folder.iterdir()
        if "events" not in file.name and ".data" not in str(file)
    )


def kept_checkpoints():
    """What each rank sees at once when it has saved, with max_to_keep=2."""
    folder = FOLDER / "kept"
    folder.mkdir(exist_ok=True)
    seen = []
    with tf.Graph().as_default():
        model, saver = Model(), tf1.train.Saver(max_to_keep=2)
        with tf1.Session(config=session_config()) as session:
            session.run(tf1.global_variables_initializer())
            for _ in range(4):
                session.run(model.step, model.feed())
                path = saver.save(session, f"{folder}/model", model.global_step)
                seen.append(
                    {
                        "returned": os.path.basename(path),
                        "latest": os.path.basename(tf.train.latest_checkpoint(folder)),
                        "last": [os.path.basename(each) for each in saver.last_checkpoints],
                        "files": files(folder),
                    }
                )
                wait_for_all_ranks(f"kept {len(seen)}")
            (folder / "another").mkdir(exist_ok=True)
            failed = raised_by(
                lambda: saver.save(session, f"{folder}/model", 9, latest_filename="another")
            )
    return seen, failed


class Slow(tf1.train.SessionRunHook):
    """Steps that take their time."""

    def after_run(self, run_context, run_values):
        time.sleep(0.02)


class Barrier(tf1.train.SessionRunHook):
    """Meets the other ranks where a session starts, as a broadcast does."""

    def after_create_session(self, session, coord):
        from sok_compat.ranks.allgather_strings import allgather_strings

        allgather_strings("barrier")


class Stopping(tf1.train.CheckpointSaverListener):
    """Asks to stop at the second checkpoint, on rank 0."""

    def __init__(self):
        self.saved = []

    def after_save(self, session, global_step_value):
        self.saved.append(int(global_step_value))
        return RANK == 0 and len(self.saved) == 3


def train(folder, hooks, num_steps=10**6, **options):
    """Trains until something stops it; the step that it came to."""
    with tf.Graph().as_default():
        model = Model()
        with tf1.train.MonitoredTrainingSession(
            checkpoint_dir=folder and str(folder),
            hooks=[Barrier(), *(hooks() if callable(hooks) else hooks)],
            config=session_config(),
            log_step_count_steps=5,
            **options,
        ) as session:
            step = 0
            while not session.should_stop() and step < num_steps:
                step = int(session.run(model.step, model.feed()))
    return step


def by_seconds():
    """Each rank's clock says another time; a listener stops all."""
    listener, folder = Stopping(), FOLDER / "seconds"

    def hooks():
        return [
            tf1.train.CheckpointSaverHook(
                str(folder), save_secs=0.4 + 5 * RANK, listeners=[listener]
            ),
            Slow(),
        ]

    last = train(None, hooks)
    return listener.saved, last, files(folder)


def on_rank_0_alone():
    """A hook of rank 0, behind another one; then the same session goes on."""
    folder = FOLDER / "alone"

    def hooks():
        if RANK:
            return []
        tf1.train.Saver([tf1.train.get_global_step()])  # other ranks do not have it
        return [tf1.train.CheckpointSaverHook(str(folder), save_steps=2)]

    first = train(None, hooks, 5)
    return first, train(folder if RANK == 0 else None, [], 7), files(folder)


def dense_on_rank_0_alone():
    """Of variables but tables: no other rank takes part."""

    def hooks():
        _, others = sok.split_embedding_variable_from_others(tf1.global_variables())
        saver = tf1.train.Saver(others)
        if RANK:
            return []
        return [tf1.train.CheckpointSaverHook(str(FOLDER / "dense"), save_steps=2, saver=saver)]

    return train(None, hooks, 3)


def failures():
    """{what: what it raises}, where ranks differ."""

    def other_hooks():
        return [
            tf1.train.CheckpointSaverHook(str(FOLDER / f"other{i}"), save_steps=2)
            for i in range(RANK + 1)
        ]

    return {
        "other hooks": raised_by(lambda: train(None, other_hooks, 3)),
        "fewer steps": raised_by(lambda: train(FOLDER / "uneven", [], 3 if RANK else 5)),
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    seen = {}
    for name in ("kept_checkpoints", "by_seconds", "on_rank_0_alone", "dense_on_rank_0_alone"):
        wait_for_all_ranks(name)
        seen[name] = globals()[name]()
    wait_for_all_ranks("failures")
    if SIZE > 1:
        seen["failures"] = failures()
    report(seen)
