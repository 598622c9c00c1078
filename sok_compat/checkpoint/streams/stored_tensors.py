# SPDX-License-Identifier: Apache-2.0
"""Lists a checkpoint's tensors and the checkpoints that it needs, on any file system.

TensorFlow's own reader ends the process if an index is damaged.
"""

from __future__ import annotations

import contextlib
import functools

import tensorflow as tf

from sok_compat.runtime.error_texts import first_line
from sok_compat.runtime.op_library import ops

tf1 = tf.compat.v1


def tensors_in(path: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """{name: (name of the dtype, shape)} of a checkpoint's tensors; not to be changed.

    Raises:
      tf.errors.OpError: it cannot be read, or is damaged (DataLossError).
    """
    path = tf.compat.as_text(path)
    try:
        with tf.io.gfile.GFile(f"{path}.index", "rb") as file:
            index = file.read()
    except tf.errors.OpError:  # listing it says more
        index = b""
    return _listed(path, index)


@functools.lru_cache(maxsize=4)  # steps of one restore ask in turn
def _listed(path, index):
    del index  # for the cache
    as_text = tf.compat.as_text
    return {
        as_text(name): (as_text(dtype), tuple(map(int, shape.split())))
        for name, dtype, shape in zip(*_answer(ops.sok_list_tensors, path))
    }


def tensors_in_readable(path: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """As tensors_in; {} of a checkpoint that cannot be read: its restore raises."""
    try:
        return tensors_in(path)
    except tf.errors.OpError:
        return {}


def chain_of(path: str) -> list[str]:
    """Paths of the checkpoints that one consists of: a whole one, each increment, and itself, last.

    Raises:
      tf.errors.NotFoundError: one is missing; the message names the file.
      tf.errors.FailedPreconditionError: one has been replaced since the next was saved.
      tf.errors.DataLossError: one is damaged.
    """
    return [tf.compat.as_text(each) for each in _answer(ops.sok_chain_of, path)]


def _answer(ask, path):
    """Runs an op on a path, in graph or eager mode; the session takes no GPU memory."""
    with tf.Graph().as_default():
        result = ask(tf.compat.as_text(path))
        session = tf1.Session(config=tf1.ConfigProto(device_count={"GPU": 0}))
        try:
            with contextlib.closing(session):
                return session.run(result)
        except tf.errors.OpError as error:  # without the graph's stack trace
            raise type(error)(None, None, first_line(error, 4000)) from None
