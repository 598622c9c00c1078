# SPDX-License-Identifier: Apache-2.0
"""The command line of `python -m sok_compat.checkpoint`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from sok_compat.checkpoint.files.dump_files import KEY_DTYPES
from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.tool import changes, diff, export_arrays, import_arrays, show

_PATH = (
    "the prefix of a checkpoint (model.ckpt-100), a folder with a `checkpoint` file, of which the "
    "latest is taken, a SavedModel, or a folder of sok.Saver's files"
)


def main(arguments: Sequence[str]) -> int:
    """Runs one command.

    Returns:
      The exit status: 0; 1 if `diff` found a difference; 2 if a file is missing or wrong.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        return options.run(options)
    except FileError as error:
        problem = str(error)
    except OSError as error:
        problem = f"{error.filename or options.path}: {error.strerror or error}"
    print(f"{parser.prog}: {problem}", file=sys.stderr)
    return 2


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m sok_compat.checkpoint",
        description="Shows, compares and converts tables in checkpoints and dumps.",
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    command = _command(commands, "show", show.run, "the contents of a checkpoint")
    command.add_argument("--no-verify", action="store_true", help="do not read the data files")

    command = _command(commands, "export", export_arrays.run, "a table as arrays")
    command.add_argument("--table", required=True)
    command.add_argument(
        "--to",
        required=True,
        nargs="+",
        metavar="FILE",
        help="keys.npy rows.npy, or one .parquet with the columns key and row",
    )
    command.add_argument(
        "--slots",
        action="store_true",
        help="also slots and counts, as rows.<slot>.npy beside rows.npy, or as columns",
    )

    command = _command(
        commands, "changes", changes.run, "what an increment changes, or a whole checkpoint"
    )
    command.add_argument("--table", help="only this table")
    command.add_argument(
        "--to",
        required=True,
        metavar="FILE",
        help="a .parquet with the columns table, step, rank, op (upsert or delete), key and row",
    )

    command = _command(
        commands,
        "import",
        import_arrays.run,
        "arrays as a dump, for sok.Saver and sok_compat.checkpoint.assign_from",
        path="the folder of the dump; created if it is missing",
    )
    command.add_argument("--table", required=True)
    command.add_argument(
        "--from",
        required=True,
        nargs="+",
        dest="files",
        metavar="FILE",
        help="keys.npy rows.npy, or .parquet files of export and changes, in their order",
    )

    command = _command(commands, "diff", diff.run, "the differences between two checkpoints")
    command.add_argument("other", metavar="OTHER", help="as PATH")
    command.add_argument("--table", help="compare only this table")
    command.add_argument("--as", dest="other_table", help="its name in OTHER")
    return parser


def _command(commands, name, run, text, path=_PATH):
    command = commands.add_parser(name, help=text, description=f"{name}: {text}.")
    command.add_argument("path", metavar="PATH", type=os.fspath, help=path)
    command.add_argument(
        "--key-dtype",
        choices=KEY_DTYPES,
        default="int64",
        help="dtype of the keys in imported dumps, and in dumps without a note; other files record "
        "it",
    )
    command.set_defaults(run=run)
    return command
