# SPDX-License-Identifier: Apache-2.0
"""Counts the lines that are not Criteo records, by reason. Plain Python, no TensorFlow."""

import dataclasses
import re
import threading

from examples.dlrm import criteo

WRONG_FIELD_COUNT = "wrong number of fields"
BAD_LABEL = "unparsable label"
BAD_NUMBER = "unparsable number"
BAD_HEX = "bad hexadecimal category"
NOT_TEXT = "not UTF-8 text"
REASONS = (WRONG_FIELD_COUNT, BAD_LABEL, BAD_NUMBER, BAD_HEX, NOT_TEXT)

_SHOWN_CHARACTERS = 60


@dataclasses.dataclass
class Tally:
    """How often one reason occurred, and where it did first."""

    count: int
    file_number: int
    line_number: int  # from 1
    detail: str


def find_reason(line, layout):
    """(reason, detail) for a line (bytes, lower case) that does not match the layout's pattern."""
    fields = line.split(layout.separator.encode())
    if len(fields) != len(layout.columns):
        return WRONG_FIELD_COUNT, f"{len(fields)} instead of {len(layout.columns)}"
    for name, pattern, field in zip(layout.columns, layout.column_patterns(), fields):
        if not re.fullmatch(pattern.encode(), field):
            shown = field[:_SHOWN_CHARACTERS].decode(errors="backslashreplace")
            return _reason_of_column(name), f"{name} is {shown!r}"
    return NOT_TEXT, repr(line[:_SHOWN_CHARACTERS])


def _reason_of_column(name):
    if name == criteo.LABEL:
        return BAD_LABEL
    return BAD_NUMBER if name in criteo.DENSE_NAMES else BAD_HEX


class MalformedLines:
    """The malformed lines of one pass over the files. Called from tf.data's threads."""

    def __init__(self, paths, layout):
        self._paths = list(paths)
        self._layout = layout
        self._lock = threading.Lock()
        self._tallies = {}

    def reset(self):
        """Forgets everything: a pass begins."""
        with self._lock:
            self._tallies = {}

    def add(self, file_number, line_numbers, lines):
        """Counts `lines` (bytes, lower case) found at `line_numbers` of a file."""
        for line_number, line in zip(line_numbers, lines):
            reason, detail = find_reason(line, self._layout)
            self._add_one(reason, int(file_number), int(line_number), detail)

    def _add_one(self, reason, file_number, line_number, detail):
        with self._lock:
            tally = self._tallies.get(reason)
            if tally is None:
                self._tallies[reason] = Tally(1, file_number, line_number, detail)
                return
            tally.count += 1
            # Blocks are parsed in parallel, so that the first to be seen need not be the first.
            if (file_number, line_number) < (tally.file_number, tally.line_number):
                tally.file_number, tally.line_number = file_number, line_number
                tally.detail = detail

    def counts(self):
        """{reason: number of lines}, only of reasons that occurred."""
        with self._lock:
            return {reason: tally.count for reason, tally in self._tallies.items()}

    def total(self):
        """The number of malformed lines."""
        return sum(self.counts().values())

    def report(self):
        """One sentence for each reason, most frequent first; an empty list when all is well."""
        with self._lock:
            tallies = sorted(self._tallies.items(), key=lambda item: -item[1].count)
            return [
                f"{tally.count} malformed line(s) left out: {reason}, first at "
                f"{self._paths[tally.file_number]}:{tally.line_number} ({tally.detail})"
                for reason, tally in tallies
            ]
