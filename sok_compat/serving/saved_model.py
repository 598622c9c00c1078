# SPDX-License-Identifier: Apache-2.0
"""`export_saved_model`: a trained model, as a SavedModel that other processes load."""

import contextlib
import functools
import os
import shutil

import tensorflow as tf

from sok_compat.lookup.dense_tables import dense_tables
from sok_compat.ranks.collectives import graphs_of_one_rank
from sok_compat.ranks.identity import current_ranks
from sok_compat.serving.arrays_of_tables import ArraysOfTables
from sok_compat.serving.stock_graph import StockGraph
from sok_compat.tables.first_value import FirstValue, all_rows_start_as

tf1 = tf.compat.v1

FIRST_VALUES, ZEROS = "first_values", "zeros"  # what missing_keys is one of
_OPTIONS = {"tags": ["serve"], "clear_devices": True, "strip_default_attrs": True}


def export_saved_model(
    folder,
    build,
    checkpoint,
    *,
    stock_ops=False,
    missing_keys=FIRST_VALUES,
    assets_extra=None,
    as_text=False,
    **options,
):
    """Writes a SavedModel of a checkpoint, whose tables are read and never written.

    Of several ranks rank 0 writes, from a checkpoint of all, and the others return at once; the
    model needs one process.

    Args:
      folder: str or path, of the SavedModel; it must not be there yet.
      build: a function that builds the model for serving, in a graph of its own, with
        training=False. It returns (inputs, outputs), two dicts {name: tensor}, or a SignatureDef,
        or {name: SignatureDef}.
      checkpoint: what has the values: a path as tf.train.Saver.save returns it, a folder, of which
        it is the latest, or a function of a session that restores all variables of the graph.
      stock_ops: True: the graph has no op of sok_compat, and can be served where that is not
        installed; each table is a sorted array of its keys and one of its rows. Lookups that are
        not pooled give the same bits; sums may be rounded otherwise.
      missing_keys: what keys give that a table does not have: 'first_values', what their rows start
        as, or 'zeros'. With stock_ops first values must be constant, or repeat
        (default_value_dim). Keys that a filter has not admitted have what it says, without
        stock_ops.
      assets_extra: {path below the model's assets.extra: file that is copied there}.
      as_text: whether the graph is written as text.
      **options: as of tf.compat.v1.saved_model.Builder.add_meta_graph_and_variables; without them
        tags is ['serve'], and devices and attributes that have their default are left out.

    Returns:
      The folder, a str; None on other ranks than 0.

    Raises:
      ValueError: missing_keys is neither; no checkpoint is in the folder; build inserts keys, or
        returns something else; with stock_ops, first values that only sok_compat's ops know, or
        ops of sok_compat that do not look keys up.
      FileExistsError: the folder is there.
    """
    if missing_keys not in (FIRST_VALUES, ZEROS):
        raise ValueError(
            f"missing_keys must be {FIRST_VALUES!r} or {ZEROS!r}, got {missing_keys!r}"
        )
    folder = os.fspath(folder)
    if current_ranks().rank != 0:
        return None
    write = _write_stock if stock_ops else _write
    with _new_folder(folder) as partial:
        builder = tf1.saved_model.Builder(partial)
        with tf.Graph().as_default(), graphs_of_one_rank(), _starting_as(missing_keys):
            write(build, _restoring(checkpoint), builder, **{**_OPTIONS, **options})
        builder.save(as_text)
        _copy_assets(os.path.join(partial, "assets.extra"), assets_extra or {})
    return folder


@contextlib.contextmanager
def _new_folder(folder):
    """Gives the path of one that becomes `folder` at the end, or goes where something fails."""
    if os.path.exists(folder):
        raise FileExistsError(f"{folder} is there already: export into a new folder")
    partial = f"{folder}.partial"
    shutil.rmtree(partial, ignore_errors=True)  # of an export that was killed
    try:
        yield partial
        os.rename(partial, folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _starting_as(missing_keys):
    if missing_keys == FIRST_VALUES:
        return contextlib.nullcontext()
    return all_rows_start_as(FirstValue("constant", 0.0))


def _restoring(checkpoint):
    """A function of a session that restores the graph's variables."""
    return checkpoint if callable(checkpoint) else functools.partial(_restore_from, checkpoint)


def _restore_from(checkpoint, session):
    path = os.fspath(checkpoint)
    if os.path.isdir(path):
        folder, path = path, tf.train.latest_checkpoint(path)
        if path is None:
            raise ValueError(f"there is no checkpoint in {folder!r}")
    tf1.train.Saver(allow_empty=True).restore(session, path)


def _write(build, restore, builder, **options):
    signatures = _signatures(build())
    saver = tf1.train.Saver(allow_empty=True, sharded=True)
    main_op = _main_op()
    with tf1.Session(config=tf1.ConfigProto(allow_soft_placement=True)) as session:
        restore(session)
        builder.add_meta_graph_and_variables(
            session,
            signature_def_map=signatures,
            assets_collection=tf1.get_collection(tf1.GraphKeys.ASSET_FILEPATHS),
            main_op=main_op,
            saver=saver,
            **options,
        )


def _write_stock(build, restore, builder, **options):
    arrays = ArraysOfTables()
    with dense_tables(arrays.of):
        signatures = _signatures(build())
    variables = [*arrays.other_variables(), *arrays.variables()]
    saver = tf1.train.Saver(variables, allow_empty=True)
    stock = StockGraph(signatures, variables, saver, _main_op())
    with tf1.Session(config=tf1.ConfigProto(allow_soft_placement=True)) as session:
        restore(session)
        arrays.fill(session)
        with tf.Graph().as_default():
            stock_saver, assets, main_op = stock.build()
            builder.add_meta_graph_and_variables(
                session,  # of the graph that has the same ops by the same names, and more
                signature_def_map=signatures,
                assets_collection=assets,
                main_op=main_op,
                saver=stock_saver,
                **options,
            )


def _main_op():
    """What is run when the model is loaded."""
    return tf.group(tf1.local_variables_initializer(), tf1.tables_initializer(), name="when_loaded")


def _signatures(built):
    """{name: SignatureDef}, of what `build` returns."""
    if isinstance(built, tuple) and len(built) == 2 and all(isinstance(x, dict) for x in built):
        built = tf1.saved_model.predict_signature_def(*built)
    named = built
    if not isinstance(built, dict):
        named = {tf1.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: built}
    if not all(hasattr(each, "method_name") for each in named.values()):
        raise ValueError(
            "build must return (inputs, outputs), two dicts of tensors, a SignatureDef, or "
            f"{{name: SignatureDef}}, got {built!r}"
        )
    return named


def _copy_assets(folder, assets):
    for below, file in assets.items():
        target = os.path.join(folder, below)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(file, target)
