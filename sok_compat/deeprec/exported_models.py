# SPDX-License-Identifier: Apache-2.0
"""SavedModels of a checkpoint, written by rank 0."""

import shutil
import time
from pathlib import Path

import tensorflow.compat.v1 as tf

from sok_compat.deeprec.distributed_strategy import current_ranks
from sok_compat.deeprec.sessions_of_ranks import session_config
from sok_compat.runtime.tickets import graphs_of_one_rank


def export_saved_model(
    savedmodel_dir,
    checkpoint_dir=None,
    signature_def_fn=None,
    assets_extra=None,
    as_text=False,
    clear_devices=True,
    strip_default_attrs=True,
):
    """Writes a SavedModel of the latest checkpoint, on rank 0. API of DeepRec.

    Its embedding variables are those of one process, with the rows of all ranks.

    Args:
      savedmodel_dir: where the model gets a folder, named by the time in seconds.
      checkpoint_dir: with the checkpoint.
      signature_def_fn: builds the graph to export, in a graph of its own, and returns its
        SignatureDef, or {name: SignatureDef}.
      assets_extra: {path below the model's assets.extra: file to copy there}.
      as_text: whether the graph is written as text.
      clear_devices: whether devices are left out of it.
      strip_default_attrs: whether attributes that have their default are.

    Returns:
      The folder, a str; None on the other ranks.

    Raises:
      ValueError: signature_def_fn, or a checkpoint, is missing.
    """
    if current_ranks().rank != 0:
        return None
    if signature_def_fn is None or checkpoint_dir is None:
        raise ValueError("export_saved_model needs a checkpoint_dir and a signature_def_fn")
    checkpoint = tf.train.latest_checkpoint(checkpoint_dir)
    if checkpoint is None:
        raise ValueError(f"export_saved_model: there is no checkpoint in {checkpoint_dir!r}")
    with graphs_of_one_rank(), tf.Graph().as_default():
        signatures = signature_def_fn()
        if not isinstance(signatures, dict):
            key = tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
            signatures = {key: signatures}
        saver = tf.train.Saver(allow_empty=True, sharded=True)
        with tf.Session(config=session_config()) as session:
            saver.restore(session, checkpoint)
            folder = _free_folder(savedmodel_dir)
            builder = tf.saved_model.Builder(f"{folder}.partial")
            builder.add_meta_graph_and_variables(
                session,
                [tf.saved_model.tag_constants.SERVING],
                signatures,
                tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS),
                clear_devices=clear_devices,
                main_op=tf.group(tf.local_variables_initializer(), tf.tables_initializer()),
                strip_default_attrs=strip_default_attrs,
                saver=saver,
            )
            builder.save(as_text)
    _copy_assets(Path(f"{folder}.partial", "assets.extra"), assets_extra or {})
    Path(f"{folder}.partial").rename(folder)
    return str(folder)


def _free_folder(above):
    """A folder that is not there yet, named by the time in seconds, as TensorFlow Serving has."""
    seconds = int(time.time())
    while any(Path(above, f"{seconds}{end}").exists() for end in ("", ".partial")):
        seconds += 1
    return Path(above, str(seconds))


def _copy_assets(folder, assets):
    for below, file in assets.items():
        target = folder / below
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
