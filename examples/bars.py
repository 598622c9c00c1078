# SPDX-License-Identifier: Apache-2.0
"""A live progress line on the console."""

import io
import shutil
import sys
import time

import tqdm

_SECONDS_BETWEEN_REFRESHES = 0.5
# Narrow enough to leave room for a model's figures on 80 columns.
_FORMAT = "{desc}{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} <{remaining}{postfix}"
_FORMAT_WITHOUT_TOTAL = "{desc}{n_fmt} samples {elapsed}{postfix}"
_SECONDS_BETWEEN_LINES = 10  # where the output is not a terminal


class Bar:
    """A live tqdm bar on a terminal; elsewhere a line now and then."""

    def __init__(self, title, total, position=0, stream=None):
        """`position`: line on the terminal, of several bars at a time. `total` may be None."""
        self._stream = stream or sys.stdout
        self._is_live = self._stream.isatty()
        self._next_line = time.monotonic() + _SECONDS_BETWEEN_LINES
        size = shutil.get_terminal_size()  # 80 x 24 where the terminal does not say
        self._bar = tqdm.tqdm(
            total=total,
            desc=f"{title:<9}",
            bar_format=_FORMAT if total else _FORMAT_WITHOUT_TOTAL,
            unit_scale=True,
            ncols=size.columns,
            nrows=size.lines,
            position=position,
            file=self._stream if self._is_live else io.StringIO(),
            mininterval=_SECONDS_BETWEEN_REFRESHES if self._is_live else float("inf"),
        )

    def advance(self, num_samples):
        """`num_samples` more are done."""
        self._bar.update(num_samples)
        if not self._is_live and time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _SECONDS_BETWEEN_LINES
            self._print_line()

    def show(self, figures):
        """Puts text behind the bar."""
        self._bar.set_postfix_str(figures, refresh=False)

    def close(self):
        """Leaves the last state on the console."""
        if not self._is_live:
            self._print_line()
        self._bar.refresh()
        self._bar.close()

    def _print_line(self):
        print(self._bar, file=self._stream, flush=True)
