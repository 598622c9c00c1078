# SPDX-License-Identifier: Apache-2.0
"""The live progress line of the examples."""

import os
import pty
import sys

from examples.bars import Bar


def test_a_terminal_that_does_not_say_its_size_shows_the_line(monkeypatch):
    """As in containers: its 0 lines are not too few for the bar."""
    output, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        bar = Bar("train", total=10)
        bar.advance(10)
        bar.close()
        shown = os.read(output, 4096).decode()
    os.close(output)
    assert "train" in shown and "100%" in shown
