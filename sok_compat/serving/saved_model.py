# SPDX-License-Identifier: Apache-2.0
"""`export_saved_model`: writes a trained model as a SavedModel for other processes."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Union

import tensorflow as tf

from sok_compat.checkpoint.saver.tf_saver import save_tables_in_checkpoints
from sok_compat.lookup.dense_tables import dense_tables
from sok_compat.ranks.collectives import graphs_of_one_rank
from sok_compat.ranks.identity import current_ranks
from sok_compat.serving.arrays_of_tables import ArraysOfTables
from sok_compat.serving.stock_graph import StockGraph
from sok_compat.tables.first_value import FirstValue, all_rows_start_as

if TYPE_CHECKING:
    Checkpoint = Union[str, os.PathLike[str], Callable[[tf.compat.v1.Session], Any]]

tf1 = tf.compat.v1

FIRST_VALUES, ZEROS = "first_values", "zeros"  # values of missing_keys
_OPTIONS: dict[str, Any] = {"tags": ["serve"], "clear_devices": True, "strip_default_attrs": True}


def export_saved_model(
    folder: str | os.PathLike[str],
    build: Callable[[], Any],
    checkpoint: Checkpoint,
    *,
    stock_ops: bool = False,
    missing_keys: str = FIRST_VALUES,
    assets_extra: dict[str, str | os.PathLike[str]] | None = None,
    as_text: bool = False,
    **options: Any,
) -> str | None:
    """Writes a SavedModel of a checkpoint, with read-only tables. Added by sok_compat.

    With several ranks, rank 0 writes it from a checkpoint of all ranks, and the others return at
    once. The model is served by one process.

    Args:
      folder: str or path of the SavedModel; it must not exist yet.
      build: a function that builds the model for serving, in its own graph, with training=False. It
        returns (inputs, outputs), two dicts {name: tensor}, or a SignatureDef, or
        {name: SignatureDef}.
      checkpoint: source of the values: a path returned by tf.train.Saver.save, a folder (its latest
        checkpoint), or a function of a session that restores all variables of the graph.
      stock_ops: whether the graph must have no ops of sok_compat, to be served where it is not
        installed. Each table is then arrays of keys and rows, and a perfect hash. Lookups without
        pooling give the same bits; sums may round differently.
      missing_keys: the rows of keys that a table does not have: 'first_values' or 'zeros'. With
        stock_ops, first values must be constant, or repeat (default_value_dim). Without stock_ops,
        keys that a filter has not admitted read the filter's value.
      assets_extra: {path below the model's assets.extra: file to copy there}.
      as_text: whether to write the graph as text.
      **options: of tf.compat.v1.saved_model.Builder.add_meta_graph_and_variables; by default, tags
        is ['serve'], and devices and default attributes are left out.

    Returns:
      The folder, a str; None on ranks other than 0.

    Raises:
      ValueError: missing_keys is neither; the folder has no checkpoint; build inserts keys, or
        returns something else; with stock_ops, the graph needs first values or ops, other than
        lookups, that only sok_compat has.
      FileExistsError: the folder exists.
    """
    start = starting_as(missing_keys)
    save_tables_in_checkpoints()
    folder = os.fspath(folder)
    if current_ranks().rank != 0:
        return None
    write = _write_stock if stock_ops else _write
    restore = checkpoint if callable(checkpoint) else functools.partial(_restore_from, checkpoint)
    with _new_folder(folder) as partial:
        builder = tf1.saved_model.Builder(partial)
        with tf.Graph().as_default(), graphs_of_one_rank(), start:
            write(build, restore, builder, **{**_OPTIONS, **options})
        builder.save(as_text)
        _copy_assets(os.path.join(partial, "assets.extra"), assets_extra or {})
    return folder


@contextlib.contextmanager
def _new_folder(folder: str) -> Iterator[str]:
    """Yields a temporary path, renamed to `folder` at the end, or removed if an error occurs."""
    if os.path.exists(folder):
        raise FileExistsError(f"{folder} already exists: export into a new folder")
    partial = f"{folder}.partial"
    shutil.rmtree(partial, ignore_errors=True)  # left by a killed export
    try:
        yield partial
        os.rename(partial, folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def starting_as(missing_keys: str) -> AbstractContextManager[None]:
    """Context in which tables give missing keys their first values, or zeros."""
    if missing_keys not in (FIRST_VALUES, ZEROS):
        raise ValueError(
            f"missing_keys must be {FIRST_VALUES!r} or {ZEROS!r}, got {missing_keys!r}"
        )
    if missing_keys == FIRST_VALUES:
        return contextlib.nullcontext()
    return all_rows_start_as(FirstValue("constant", 0.0))


def _restore_from(checkpoint: str | os.PathLike[str], session: tf.compat.v1.Session) -> None:
    path = os.fspath(checkpoint)
    if os.path.isdir(path):
        folder, path = path, tf.train.latest_checkpoint(path)
        if path is None:
            raise ValueError(f"there is no checkpoint in {folder!r}")
    tf1.train.Saver(allow_empty=True).restore(session, path)


def _write(
    build: Callable[[], Any],
    restore: Callable[[tf.compat.v1.Session], Any],
    builder: tf.compat.v1.saved_model.Builder,
    **options: Any,
) -> None:
    signatures = signatures_of(build())
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


def _write_stock(
    build: Callable[[], Any],
    restore: Callable[[tf.compat.v1.Session], Any],
    builder: tf.compat.v1.saved_model.Builder,
    **options: Any,
) -> None:
    arrays = ArraysOfTables()
    with dense_tables(arrays.of):
        signatures = signatures_of(build())
    variables = [*arrays.other_variables(), *arrays.variables()]
    saver = tf1.train.Saver(variables, allow_empty=True)
    stock = StockGraph(signatures, variables, saver, _main_op())
    with tf1.Session(config=tf1.ConfigProto(allow_soft_placement=True)) as session:
        restore(session)
        arrays.fill(session)
        with tf.Graph().as_default():
            stock_saver, assets, main_op = stock.build()
            builder.add_meta_graph_and_variables(
                session,  # of a graph with at least the same ops and names
                signature_def_map=signatures,
                assets_collection=assets,
                main_op=main_op,
                saver=stock_saver,
                **options,
            )


def _main_op() -> tf.Operation:
    """Returns the op that runs when the model is loaded."""
    return tf.group(tf1.local_variables_initializer(), tf1.tables_initializer(), name="when_loaded")


def signatures_of(built: Any) -> dict[str, Any]:
    """Converts the result of `build` to {name: SignatureDef}."""
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


def _copy_assets(folder: str, assets: dict[str, str | os.PathLike[str]]) -> None:
    for below, file in assets.items():
        target = os.path.join(folder, below)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(file, target)
