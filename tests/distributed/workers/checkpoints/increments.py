# SPDX-License-Identifier: Apache-2.0
"""Saves increments, and restores those that other numbers of ranks have saved.

Arguments: the folder to save to; the path of a checkpoint that others have saved.
"""

import os
import shutil
import sys

import tensorflow as tf

import sok_compat as sok
from sok_compat.runtime.settings import CHECKPOINTS_ON_RANK_0
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config
from tests.support.saves.incremental_model import BATCHES, IncrementalModel

tf1 = tf.compat.v1


def in_new_graph(use, *args):
    with tf.Graph().as_default():
        model = IncrementalModel(SIZE, RANK)
        with tf1.Session(config=session_config(rewrites=False)) as session:
            return use(model, session, *args)


def save_and_replace(model, session, path):
    """What was saved; then one rank makes a table anew: the next checkpoint is whole on all."""
    saved = model.save_series(session, path)
    if RANK == SIZE - 1:
        session.run(model.tables["hash"].table.initializer)
    replaced = model.saver.save_increment(session, path, 100)
    return saved, is_whole(replaced)


def gather(model, session, folder):
    """Where each rank has a disk of its own, and rank 0 the files."""
    paths, saved, after = model.save_series(session, f"{folder}/{RANK}/model")
    is_there = os.path.exists(f"{folder}/{RANK}")
    return saved, after, *model.resume(session, paths[-1]), is_there


def in_session(folder):
    """Increments by the hook: names of the checkpoints and which are whole, files of changes, and
    the error at the end."""
    with tf.Graph().as_default():
        model = IncrementalModel(SIZE, RANK)
        # Rank 0's folder counts.
        mine = folder if RANK == 0 else f"{folder}/nowhere"
        changes = f"{mine}/changes" if RANK == 0 else None
        hook = sok.IncrementalSaverHook(model.saver, mine, save_steps=2, changes_dir=changes)
        written, problem = [], ""
        try:
            with tf1.train.MonitoredTrainingSession(
                checkpoint_dir=mine,
                scaffold=tf1.train.Scaffold(saver=model.saver),
                save_checkpoint_steps=3,
                save_summaries_steps=None,
                hooks=[hook],
            ) as session:
                for _ in range(5):
                    session.run(model.step, model.feeds(BATCHES[0]))
                if changes:
                    written = sorted(os.listdir(changes))
                    shutil.rmtree(changes)  # the last checkpoint's cannot be written
        except (OSError, tf.errors.UnknownError) as error:
            problem = str(error)
        paths = model.saver.last_checkpoints
        return {os.path.basename(path): is_whole(path) for path in paths}, written, problem


def is_whole(path):
    return tf.train.load_checkpoint(path).get_tensor("sok_compat/series").size == 1


if __name__ == "__main__":
    folder, other = sys.argv[1:]
    seen = {
        "saved": in_new_graph(save_and_replace, f"{folder}/model"),
        "restored": in_new_graph(lambda model, session: model.resume(session, other)),
    }
    if SIZE == 2:
        os.environ[CHECKPOINTS_ON_RANK_0.name] = "1"  # savers are made by it
        seen["gathered"] = in_new_graph(gather, f"{folder}/gathered")
        del os.environ[CHECKPOINTS_ON_RANK_0.name]
        seen["session"] = in_session(f"{folder}/session")
    report(seen)
