# SPDX-License-Identifier: Apache-2.0
"""What a Criteo file looks like: columns, separator, header, and what each field may hold."""

import dataclasses
import gzip
import logging
import os

logger = logging.getLogger(__name__)

NUM_DENSE = 13
NUM_CATEGORICAL = 26
LABEL = "label"
DENSE_NAMES = tuple(f"I{i}" for i in range(1, NUM_DENSE + 1))
CATEGORICAL_NAMES = tuple(f"C{i}" for i in range(1, NUM_CATEGORICAL + 1))
COLUMNS = (LABEL, *DENSE_NAMES, *CATEGORICAL_NAMES)

SEPARATORS = {"tsv": "\t", "csv": ","}
GZIP_MAGIC = b"\x1f\x8b"

# Fields are matched in lower case, by TensorFlow (RE2) and by Python alike. Nineteen digits and
# a two-digit exponent always fit a float64, so that no well-formed number becomes infinite.
LABEL_PATTERN = r"[01](?:\.0*)?"
NUMBER_PATTERN = r"(?:-?\d{1,19}(?:\.\d*)?(?:e[+-]?\d{1,2})?)?"
HEX_PATTERN = r"[0-9a-f]*"


@dataclasses.dataclass(frozen=True)
class Layout:
    """How the fields of one line are told apart, and which column holds what."""

    separator: str
    columns: tuple  # names, in the order of the file

    def positions(self, names):
        """The column numbers of `names`."""
        return [self.columns.index(name) for name in names]

    def column_patterns(self):
        """One regular expression for each column; a column of an unknown name may hold anything."""
        return [_pattern(name, self.separator) for name in self.columns]

    def line_pattern(self):
        """The regular expression that exactly the well-formed lines match."""
        return self.separator.join(self.column_patterns())


def _pattern(name, separator):
    if name == LABEL:
        return LABEL_PATTERN
    if name in DENSE_NAMES:
        return NUMBER_PATTERN
    if name in CATEGORICAL_NAMES:
        return HEX_PATTERN
    return f"[^{separator}]*"


@dataclasses.dataclass(frozen=True)
class CriteoFile:
    """One input file, looked at once before anything is built."""

    path: str
    compression: str  # as tf.data spells it: "" or "GZIP"
    header_lines: int  # 0 or 1
    layout: Layout


def inspect_file(path, file_format="auto"):
    """Reads the first line of `path` to find its compression, separator, header and columns.

    None for an empty file. Raises FileNotFoundError for a missing one, ValueError for a header
    that lacks a column.
    """
    if file_format not in ("auto", *SEPARATORS):
        raise ValueError(f"format must be auto, tsv or csv, got {file_format!r}")
    path = os.fspath(path)
    with open(path, "rb") as raw:
        compression = "GZIP" if raw.read(2) == GZIP_MAGIC else ""
    with (gzip.open if compression else open)(path, "rb") as stream:
        first_line = stream.readline().decode("utf-8-sig", errors="replace")
    if not first_line:
        return None
    separator = SEPARATORS.get(file_format) or ("\t" if "\t" in first_line else ",")
    names = tuple(name.strip() for name in first_line.split(separator))
    if LABEL not in names:
        return CriteoFile(path, compression, 0, Layout(separator, COLUMNS))
    missing = [name for name in COLUMNS if name not in names]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if missing or repeated:
        raise ValueError(
            f"{path}: the header must name label, I1 to I13 and C1 to C26 once each; "
            f"missing {missing}, repeated {repeated}"
        )
    return CriteoFile(path, compression, 1, Layout(separator, names))


def inspect_files(paths, file_format="auto"):
    """As above for the files of a run, which must share one layout; empty ones are left out."""
    inspected = [(path, inspect_file(path, file_format)) for path in paths]
    for path, file in inspected:
        if file is None:
            logger.warning("%s is empty", path)
    files = [file for _, file in inspected if file is not None]
    if not files:
        raise ValueError(f"nothing to read: no line in {list(map(str, paths))}")
    for file in files[1:]:
        if file.layout != files[0].layout:
            raise ValueError(
                "all files of a run must have the same separator and columns: "
                f"{files[0].path} has {files[0].layout}, {file.path} has {file.layout}; "
                "convert them or train on them one after the other"
            )
    return files
