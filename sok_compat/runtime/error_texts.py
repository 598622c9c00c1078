# SPDX-License-Identifier: Apache-2.0
"""The message of an error, without what TensorFlow adds. No TensorFlow."""

from __future__ import annotations

import re

MOST_CHARACTERS = 300  # of an error's message, where other ranks or a log repeat it

_OF_EAGER_OPS = re.compile(r"\A\{\{function_node [^}]*\}\} | \[Op:\w+\]( name: ?.*)?\Z")


def without_names(message: str) -> str:
    """The message of an eager op's error, without the names that TensorFlow puts around it."""
    return _OF_EAGER_OPS.sub("", message)


def first_line(error: BaseException, most_characters: int | None = MOST_CHARACTERS) -> str:
    """An error's message, without what TensorFlow adds: stacks, and names of ops in eager mode.

    Cut after `most_characters`, unless that is None.
    """
    while isinstance(error.__context__, type(error)):
        error = error.__context__
    lines = (getattr(error, "message", None) or str(error)).splitlines()
    nodes = [number for number, line in enumerate(lines) if line.startswith("Node: ")]
    lines = lines[nodes[-1] + 1 :] if nodes else lines  # after its place in the graph
    ends = [number for number, line in enumerate(lines) if line.strip().startswith("[[{{node")]
    if ends and lines[0] == "Graph execution error:":  # of a function, after its own stack
        lines = lines[ends[0] - 1 :]
    lines = [line.strip() for line in lines if line.strip() and "root error(s)" not in line]
    line = without_names(lines[0]) if lines else type(error).__name__
    return line[:most_characters]
