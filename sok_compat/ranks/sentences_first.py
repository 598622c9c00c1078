# SPDX-License-Identifier: Apache-2.0
"""The order within messages of failed steps: first the sentence, then TensorFlow's stack."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from sok_compat.runtime import integrations

_NODES = re.compile(r"\{\{node ([^}\s]+)\}\}")
_SEVERAL = re.compile(r"\A\s*\d+ root error\(s\) found\.\s*(\(0\) )?")


def put_sentences_first() -> None:
    """Makes errors of this package's ops in sessions begin with their message.

    TensorFlow puts the stack of the op's creation before it, twice the height of a screen.
    """
    integrations.apply("errors of tf.compat.v1.Session.run", _with_sentence_first)


def _with_sentence_first(interpolate: Callable[[str, Any], str]) -> Callable[[str, Any], str]:
    @functools.wraps(interpolate)
    def interpolated(message, graph):
        text = interpolate(message, graph)
        if not any(_is_ours(name, graph) for name in _NODES.findall(message)):
            return text
        sentence = _SEVERAL.sub("", message).partition("\n\t [[")[0]
        return f"{sentence}\n\n{text}"

    return interpolated


def _is_ours(name, graph):
    try:
        return graph.get_operation_by_name(name).type.startswith("Sok")
    except (KeyError, ValueError):  # of a function, or a name of no op
        return False
