# SPDX-License-Identifier: Apache-2.0
"""`python -m sok_compat.serving.follow`: exports the latest checkpoint again and again, in numbered
folders, for servers without sok_compat such as TensorFlow Serving."""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.runtime.error_texts import first_line
from sok_compat.serving.saved_model import FIRST_VALUES, ZEROS, export_saved_model
from sok_compat.serving.versions import Version, latest_version

_HIDDEN = ".{}.deleted"  # name of a version that is being deleted
_FEWEST = 2  # versions to keep: a server may still be loading the one before the last
_SOURCE = "sok_compat_checkpoint"  # file in assets.extra: name and id of the exported checkpoint


def export_latest(
    build: Callable[[], Any],
    checkpoints: str,
    exports: str,
    *,
    keep: int = 3,
    missing_keys: str = FIRST_VALUES,
) -> str | None:
    """Exports a folder's latest checkpoint, with TensorFlow's ops alone, as the next version.

    Args:
      build: as for `export_saved_model`.
      checkpoints: the folder of the checkpoints; increments are applied.
      exports: the folder of the versions, named 1, 2, ...; a version appears there complete.
      keep: number of versions to keep, at least 2; older ones are deleted.
      missing_keys: as for `export_saved_model`.

    Returns:
      The path of the version; None if there is no checkpoint, or the last version is of it.

    Raises:
      FileError, tf.errors.OpError: the checkpoint is damaged or lacks a link; nothing is changed.
      ValueError: `keep` is too small.
    """
    if keep < _FEWEST:
        raise ValueError(
            f"keep must be at least {_FEWEST}, as a server may still be loading the version before "
            f"the last, got {keep}"
        )
    os.makedirs(exports, exist_ok=True)
    for name in os.listdir(exports):
        if re.fullmatch(_HIDDEN.format(r"\d+"), name):  # could not be deleted before
            _remove(exports, name)
    latest = latest_version(checkpoints)
    if latest is None:
        return None
    names = [name for name in os.listdir(exports) if re.fullmatch("[0-9]+", name)]
    numbers = sorted(map(int, names))
    if numbers and _source_of(os.path.join(exports, str(numbers[-1]))) == _as_text(latest):
        return None
    number = numbers[-1] + 1 if numbers else 1
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, _SOURCE)
        with open(source, "w", encoding="utf-8") as file:
            file.write(_as_text(latest))
        path = export_saved_model(
            os.path.join(exports, str(number)),
            build,
            functools.partial(_restore, latest.prefix),
            stock_ops=True,
            missing_keys=missing_keys,
            assets_extra={_SOURCE: source},
        )
    for old in numbers[: max(0, len(numbers) + 1 - keep)]:
        _delete(exports, old)
    return path


def _delete(exports: str, number: int) -> None:
    """Deletes a version, after a rename: no server may load a half of it."""
    hidden = _HIDDEN.format(number)
    try:
        os.rename(os.path.join(exports, str(number)), os.path.join(exports, hidden))
    except OSError as error:
        print(f"version {number} is not deleted: {error}", file=sys.stderr, flush=True)
    else:
        _remove(exports, hidden)


def _remove(exports: str, hidden: str) -> None:
    """Deletes a hidden version; the next call tries again if that fails."""
    try:
        shutil.rmtree(os.path.join(exports, hidden))
    except OSError as error:
        print(f"{hidden} is not deleted: {error}", file=sys.stderr, flush=True)


def _restore(prefix: str, session: tf.compat.v1.Session) -> None:
    """Restores a checkpoint; raises FileError if the trainer has deleted it meanwhile."""
    try:
        tf.compat.v1.train.Saver(allow_empty=True).restore(session, prefix)
    except ValueError as error:  # TensorFlow's for a missing file
        raise FileError(f"{prefix} is not there any more: {error}") from error


def _as_text(version: Version) -> str:
    return f"{version.name}\n{version.id}\n"


def _source_of(version: str) -> str:
    try:
        with open(os.path.join(version, "assets.extra", _SOURCE), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:  # exported otherwise
        return ""


def main(arguments: Sequence[str]) -> int:
    """Runs the command; returns its exit status."""
    options = _parser().parse_args(arguments)
    build = options.model
    while True:
        begin, status = time.monotonic(), 0
        try:
            path = export_latest(
                build,
                options.checkpoints,
                options.exports,
                keep=options.keep,
                missing_keys=options.missing_keys,
            )
            if path is not None:
                print(f"{path}: {_source_of(path).splitlines()[0]}", flush=True)
        except (FileError, OSError, tf.errors.OpError) as error:
            status = 2
            print(f"no version is written: {first_line(error, None)}", file=sys.stderr, flush=True)
        if options.every is None:
            return status
        time.sleep(max(0.0, begin + options.every - time.monotonic()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sok_compat.serving.follow",
        description="Exports the latest checkpoint of a folder, increments applied, as a "
        "SavedModel of TensorFlow's ops alone, into numbered folders, from which TensorFlow "
        "Serving takes the last.",
    )
    parser.add_argument("checkpoints", metavar="CHECKPOINTS", help="the folder of the trainer")
    parser.add_argument("exports", metavar="EXPORTS", help="the folder of the versions")
    parser.add_argument(
        "--model",
        required=True,
        type=_function,
        metavar="MODULE:FUNCTION",
        help="what builds the model for serving, as `build` of sok.export_saved_model",
    )
    parser.add_argument(
        "--every", type=float, metavar="SECONDS", help="between two exports; without it, one export"
    )
    parser.add_argument("--keep", type=_count, default=3, help="versions to keep, 3 by default")
    parser.add_argument(
        "--missing-keys",
        choices=[FIRST_VALUES, ZEROS],
        default=FIRST_VALUES,
        help="as for sok.export_saved_model",
    )
    return parser


def _count(text: str) -> int:
    if not (text.isdecimal() and int(text) >= _FEWEST):
        raise argparse.ArgumentTypeError(f"must be at least {_FEWEST}, got {text!r}")
    return int(text)


def _function(text: str) -> Callable[[], Any]:
    module, _, name = text.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not MODULE:FUNCTION: {error}") from error
    if not callable(function):
        raise argparse.ArgumentTypeError(f"{text!r} is no function")
    return function


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
