# SPDX-License-Identifier: Apache-2.0
"""SavedModels of a checkpoint, written by rank 0."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sok_compat import serving


def export_saved_model(
    savedmodel_dir: str | os.PathLike[str],
    checkpoint_dir: str | os.PathLike[str] | None = None,
    signature_def_fn: Callable[[], Any] | None = None,
    assets_extra: dict[str, str | os.PathLike[str]] | None = None,
    as_text: bool = False,
    clear_devices: bool = True,
    strip_default_attrs: bool = True,
) -> str | None:
    """Writes a SavedModel of the latest checkpoint, on rank 0. API of DeepRec.

    Its embedding variables hold the rows of all ranks, for one process.

    Args:
      savedmodel_dir: the folder to put the model's own folder in, named by the time in seconds.
      checkpoint_dir: the folder of the checkpoint.
      signature_def_fn: builds the model in a graph of its own, and returns its SignatureDef, or
        {name: SignatureDef}.
      assets_extra: {path below the model's assets.extra: file to copy there}.
      as_text: whether to write the graph as text.
      clear_devices: whether to drop devices from the graph.
      strip_default_attrs: whether to drop attributes that have their default value.

    Returns:
      The model's folder, a str; None on other ranks.

    Raises:
      ValueError: signature_def_fn or the checkpoint is missing.
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


def _free_folder(above: str | os.PathLike[str]) -> Path:
    """A folder that does not exist yet, named by the time in seconds, as TensorFlow Serving's."""
    seconds = int(time.time())
    while any(Path(above, f"{seconds}{end}").exists() for end in ("", ".partial")):
        seconds += 1
    return Path(above, str(seconds))
