# SPDX-License-Identifier: Apache-2.0
"""SavedModels of a checkpoint, written by rank 0."""

import time
from pathlib import Path

from sok_compat import serving


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
    if signature_def_fn is None or checkpoint_dir is None:
        raise ValueError("export_saved_model needs a checkpoint_dir and a signature_def_fn")
    return serving.export_saved_model(
        _free_folder(savedmodel_dir),
        signature_def_fn,
        checkpoint_dir,
        assets_extra=assets_extra,
        as_text=as_text,
        clear_devices=clear_devices,
        strip_default_attrs=strip_default_attrs,
    )


def _free_folder(above):
    """A folder that is not there yet, named by the time in seconds, as TensorFlow Serving has."""
    seconds = int(time.time())
    while any(Path(above, f"{seconds}{end}").exists() for end in ("", ".partial")):
        seconds += 1
    return Path(above, str(seconds))
