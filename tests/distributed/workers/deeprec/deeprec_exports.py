# SPDX-License-Identifier: Apache-2.0
"""Exports that all ranks call for, of TensorFlow 1's names."""

import os
import time
from pathlib import Path

import numpy as np

import sok_compat.deeprec as tf
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config, wait_for_all_ranks

tf.config.experimental.enable_distributed_strategy("collective")
FOLDER = Path(os.environ["SOK_TEST_FOLDER"])
IDS = np.arange(24, dtype=np.int64).reshape(12, 2)


def model_fn(features, labels, mode):
    """A table and an ordinary variable."""
    del labels
    table = tf.get_embedding_variable("t", 4)
    weights = tf.get_variable("weights", [8, 1])
    rows = tf.reshape(tf.nn.embedding_lookup(table, features["ids"]), [-1, 8])
    logits = tf.squeeze(rows @ weights, 1)
    step, optimizer = tf.train.get_or_create_global_step(), tf.train.AdagradOptimizer(0.3)
    loss = tf.reduce_mean((logits - 1.0) ** 2)
    train_op = optimizer.minimize(loss, step) if mode == "train" else None
    return tf.estimator.EstimatorSpec(mode, {"logits": logits}, loss, train_op)


def train(folder, shards):
    """The logits of this rank for all IDS."""
    with tf.Graph().as_default():
        dataset = tf.data.Dataset.from_tensor_slices(IDS)
        if shards:
            dataset = dataset.shard(SIZE, RANK)
        dataset = dataset.shuffle(12, seed=4).repeat().batch(3)
        ids = tf.data.make_one_shot_iterator(dataset).get_next()
        spec = model_fn({"ids": ids}, None, "train")
        with tf.variable_scope("", reuse=True):
            served = model_fn({"ids": tf.constant(IDS)}, None, "infer").predictions["logits"]
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=str(folder), config=session_config(rewrites=False),
            save_summaries_steps=None, save_checkpoint_steps=10,
        ) as session:  # fmt: skip
            for _ in range(4):
                session.run(spec.train_op)
            return session.run(served)


def evaluate(folder):
    """The logits for all IDS, by what a training session with this checkpoint_dir has saved."""
    with tf.Graph().as_default():
        served = model_fn({"ids": tf.constant(IDS)}, None, "infer").predictions["logits"]
        creator = tf.train.ChiefSessionCreator(
            config=session_config(rewrites=False), checkpoint_dir=str(folder)
        )
        with tf.train.MonitoredSession(creator) as session:
            return session.run(served)


class EndsLate(tf.train.SessionRunHook):
    """Ends before the hook that saves."""

    def end(self, session):
        time.sleep(2)


def train_without_tables(folder):
    """The checkpoint that this rank finds when its training session has ended."""
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        weight = tf.get_variable("weight", initializer=1.0)
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(weight**2, step)
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=str(folder), config=session_config(rewrites=False),
            save_summaries_steps=None, chief_only_hooks=[EndsLate()],
        ) as session:  # fmt: skip
            for _ in range(3):
                session.run(train_op)
    return tf.train.latest_checkpoint(str(folder))


def serving_input():
    ids = tf.placeholder(tf.int64, [None, 2], name="ids")
    return tf.estimator.export.ServingInputReceiver({"ids": ids}, {"ids": ids})


def predict(folder):
    """The logits of a SavedModel for all IDS."""
    with tf.Graph().as_default(), tf.Session(config=session_config(rewrites=False)) as session:
        signature = tf.saved_model.load(session, ["serve"], folder).signature_def["serving_default"]
        ids, logits = signature.inputs["ids"], signature.outputs["logits"]
        return session.run(logits.name, {ids.name: IDS})


def export(folder):
    """What an estimator gives on this rank: the model's logits, or None."""
    estimator = tf.estimator.Estimator(model_fn, str(folder))
    assert isinstance(tf.compat.v2.compat.v1.estimator.Estimator(model_fn), tf.estimator.Estimator)
    exported = estimator.export_saved_model(str(FOLDER / "exported"), serving_input)
    return None if exported is None else predict(exported)


def export_canned():
    """What a canned estimator gives on this rank: a folder, or None."""
    columns = [tf.feature_column.numeric_column("x")]
    estimator = tf.estimator.LinearClassifier(columns, str(FOLDER / f"canned_{RANK}"))
    estimator.train(lambda: ({"x": tf.ones([2, 1])}, tf.zeros([2, 1], tf.int64)), steps=1)

    def serving_input_of_x():
        x = tf.placeholder(tf.float32, [None, 1])
        return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})

    return estimator.export_saved_model(str(FOLDER / "canned"), serving_input_of_x)


def save_session(makes_table):
    """{way: files it wrote, or its error}, of sessions with a table or without."""
    with tf.Graph().as_default(), tf.Session(config=session_config(rewrites=False)) as session:
        x = tf.placeholder(tf.float32, [None])
        y = x * tf.get_variable("y", initializer=3.0)
        if makes_table:
            tf.get_embedding_variable("t", 4)
        session.run(tf.global_variables_initializer())

        def by_builder(folder):
            builder = tf.saved_model.builder.SavedModelBuilder(folder)
            signature = tf.saved_model.predict_signature_def({"x": x}, {"y": y})
            builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
            builder.save()

        def at_once(folder):
            tf.saved_model.simple_save(session, folder, {"x": x}, {"y": y})

        seen = {}
        for way in (by_builder, at_once):
            folder = FOLDER / f"{way.__name__}_{makes_table}_{RANK}"
            try:
                way(str(folder))
                seen[way.__name__] = sorted(path.name for path in folder.glob("*"))
            except ValueError as error:
                seen[way.__name__] = str(error)
            wait_for_all_ranks(f"{way.__name__}_{makes_table}")
        return seen


def main():
    seen = {}
    if hasattr(tf, "estimator"):
        own = FOLDER / f"same_{RANK}"  # as a script that names it by the time
        trained = train(own, shards=False)
        seen = {"trained": trained, "logits": train(FOLDER / "model", shards=True)}
        seen["evaluated"] = evaluate(own)
        seen["latest"] = tf.train.latest_checkpoint(str(own))
        seen["exported"] = export(FOLDER / "model")
        seen["canned"] = export_canned()
    seen["of_variables"] = train_without_tables(FOLDER / f"variables_{RANK}")
    report({**seen, "with": save_session(True), "without": save_session(False)})


if __name__ == "__main__":
    main()
