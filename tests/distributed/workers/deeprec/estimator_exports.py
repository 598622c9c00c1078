# SPDX-License-Identifier: Apache-2.0
"""Exports of an Estimator on ranks without a strategy, called by all ranks or by rank 0 alone."""

import os
from pathlib import Path

import numpy as np

import sok_compat.deeprec as tf
from sok_compat.ranks.collectives import graphs_of_one_rank
from tests.distributed.workers.ranks import (
    RANK,
    SIZE,
    hvd,
    report,
    session_config,
    wait_for_all_ranks,
)

FOLDER = Path(os.environ["SOK_TEST_FOLDER"])
IDS = np.arange(24, dtype=np.int64).reshape(12, 2)
CALLERS = {"all ranks": range(SIZE), "rank 0": range(1), "own folders": range(SIZE)}


def model_fn(features, labels, mode):
    """A table and an ordinary variable."""
    del labels
    table = tf.get_embedding_variable("t", 4)
    weights = tf.get_variable("weights", [8, 1])
    rows = tf.reshape(tf.nn.embedding_lookup(table, features["ids"]), [-1, 8])
    logits = tf.squeeze(rows @ weights, 1)
    step, loss = tf.train.get_or_create_global_step(), tf.reduce_mean((logits - 1.0) ** 2)
    optimizer = hvd.DistributedOptimizer(tf.train.AdagradOptimizer(0.3))
    train_op = optimizer.minimize(loss, step) if mode == "train" else None
    return tf.estimator.EstimatorSpec(mode, {"logits": logits}, loss, train_op)


def input_of_rank():
    dataset = tf.data.Dataset.from_tensor_slices({"ids": IDS})
    return dataset.shard(SIZE, RANK).repeat().batch(3)


def same_input():
    return tf.data.Dataset.from_tensor_slices({"ids": IDS}).repeat().batch(3)


def whole_input():
    return tf.data.Dataset.from_tensor_slices({"ids": IDS}).batch(12)


def serving_input():
    ids = tf.placeholder(tf.int64, [None, 2], name="ids")
    return tf.estimator.export.ServingInputReceiver({"ids": ids}, {"ids": ids})


def logits_of(folder):
    """What a SavedModel gives for IDS."""
    with tf.Graph().as_default(), tf.Session(config=session_config(rewrites=False)) as session:
        signature = tf.saved_model.load(session, ["serve"], folder).signature_def["serving_default"]
        ids, logits = signature.inputs["ids"], signature.outputs["logits"]
        return session.run(logits.name, {ids.name: IDS})


def export_only(folder):
    """Exports of a job that does not train: what each returns on this rank, and, on rank 0, the
    models' logits and those of the session that wrote the checkpoint."""
    folder.mkdir(exist_ok=True)
    expected = None
    if RANK == 0:
        with graphs_of_one_rank(), tf.Graph().as_default():
            logits = model_fn({"ids": tf.constant(IDS)}, None, "infer").predictions["logits"]
            with tf.Session(config=session_config()) as session:
                session.run(tf.global_variables_initializer())
                expected = session.run(logits)
                tf.train.Saver().save(session, str(folder / "model.ckpt"), 0)
    wait_for_all_ranks("saved")
    estimator = tf.estimator.Estimator(model_fn, str(folder))
    last = tf.estimator.LatestExporter("last", serving_input)
    paths = [
        estimator.export_saved_model(str(folder / "called"), serving_input),
        last.export(estimator, str(folder / "last"), estimator.latest_checkpoint(), {}, True),
    ]
    return paths, [logits_of(path) for path in paths if path], expected


def export(folder, exports):
    """{what exports: (number of models, logits of the last)}, the logits of the estimator, and
    the path that it returns on this rank."""
    config = tf.estimator.RunConfig(save_checkpoints_steps=2, session_config=session_config())
    has_folder = RANK == 0 or folder.name != "own folders"
    estimator = tf.estimator.Estimator(
        model_fn, str(folder / "model") if has_folder else None, config
    )
    kinds = [tf.estimator.FinalExporter, tf.estimator.LatestExporter, tf.estimator.BestExporter]
    exporters = [kind(kind.__name__, serving_input) for kind in kinds] if exports else None
    hooks = [hvd.BroadcastGlobalVariablesHook(0)]
    tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(input_of_rank, max_steps=4, hooks=hooks),
        tf.estimator.EvalSpec(whole_input, steps=None, throttle_secs=0, exporters=exporters),
    )
    logits = [each["logits"] for each in estimator.predict(whole_input)]
    path = exports and estimator.export_saved_model(str(folder / "called"), serving_input)
    estimator.train(same_input, hooks=hooks, steps=1)  # ranks still meet
    found = {}
    if RANK == 0:
        for above in [folder / "called", *sorted(folder.glob("model/export/*"))]:
            models = sorted(above.iterdir())
            found[above.name] = (len(models), logits_of(str(models[-1])))
    return found, logits, path and os.fsdecode(path)


if __name__ == "__main__":
    alone = export_only(FOLDER / "alone")
    seen = {who: export(FOLDER / who, RANK in ranks) for who, ranks in CALLERS.items()}
    report({**seen, "alone": alone})
