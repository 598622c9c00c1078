# SPDX-License-Identifier: Apache-2.0
"""All-gathers of strings, by which ranks communicate between steps."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from sok_compat.ranks.collectives import begin_collective, graph_beside
from sok_compat.ranks.identity import current_ranks, is_connected
from sok_compat.runtime.error_texts import first_line
from sok_compat.runtime.graphs import state_of
from sok_compat.runtime.op_library import ops

tf1 = tf.compat.v1

_making = threading.Lock()


@dataclasses.dataclass(frozen=True)
class _Room:
    session: Any
    text: Any
    texts: Any


def allgather_strings(
    where: str,
    text: str = "",
    graph: tf.Graph | None = None,
    is_patient: bool = False,
    ends_session: bool = False,
) -> list[str]:
    """Gathers a string from each rank; all ranks wait for one another here.

    Args:
      where: name of the collective, for messages; valid as the name of an op.
      text: this rank's string.
      graph: of the session that the call is about, if any. Ranks whose sessions have diverged can
        meet again for another graph.
      is_patient: whether to wait without a timeout, for ranks that are sure to come.
      ends_session: whether this rank's session of the graph runs no further step: ranks that do
        fail at once, and so does this call.

    Returns:
      The strings of all ranks, by rank.

    Raises:
      tf.errors.UnknownError: another rank has failed or left, or has not come here within the
        timeout of a step.
    """
    options = {"is_patient": is_patient, "ends_session": ends_session}
    return [each.decode() for each in allgather_bytes(where, text.encode(), graph, **options)]


def allgather_bytes(
    where: str, data: bytes = b"", graph: tf.Graph | None = None, **options: bool
) -> list[bytes]:
    """As allgather_strings, for bytes."""
    if not is_connected():
        return [data]
    room = _room(where, graph, options)
    try:
        return room.session.run(room.texts, {room.text: data}).tolist()
    except tf.errors.OpError as error:  # without the graph's stack trace
        raise type(error)(None, None, first_line(error, 4000)) from None


def expect_end_of_session(where: str, graph: tf.Graph, is_patient: bool = False) -> None:
    """Makes this rank know allgather_strings(where, graph=graph, ends_session=True), which others
    may call while it runs steps."""
    if is_connected():
        _room(where, graph, {"is_patient": is_patient, "ends_session": True})


def value_of_rank_0(where: str, make: Callable[[], Any], graph: tf.Graph | None = None) -> Any:
    """Calls make() on rank 0 only, and returns its value on all ranks.

    Args:
      where: as for allgather_strings.
      make: returns a value that JSON can represent.
      graph: as for allgather_strings.

    Raises:
      Exception: on rank 0, the error of make().
      tf.errors.UnknownError: on the other ranks, if make() raised; or as for allgather_strings.
    """
    if not is_connected():
        return make()
    said: dict[str, Any] = {}
    error: Exception | None = None
    if current_ranks().rank == 0:
        try:
            said = {"value": make()}
        except Exception as raised:  # noqa: BLE001  whatever it is, others must not wait
            error = raised
            said = {"error": f"{type(raised).__name__}: {first_line(raised)}"}
    said = json.loads(allgather_strings(where, json.dumps(said), graph)[0])
    if error is not None:
        raise error
    if "error" in said:
        raise tf.errors.UnknownError(None, None, f"{where}: rank 0 has failed: {said['error']}")
    return said["value"]


def _room(where, beside, options):
    with _making:
        rooms = state_of(beside).gathers_of_strings
        key = where, *sorted(options.items())
        if key not in rooms:
            rooms[key] = _make_room(where, beside, options)
        return rooms[key]


def _make_room(where, beside, options):
    with graph_beside(beside).as_default() as graph, tf.device("CPU:0"):
        text = tf1.placeholder(tf.string, [])
        collective = begin_collective(where, op_name=f"sok_compat.{where}")
        texts = ops.sok_exchange_strings(text, collective, **options)
    # The session has its own thread: a training graph that fills TensorFlow's pool must not stop
    # ranks from communicating.
    config = tf1.ConfigProto(device_count={"GPU": 0}, intra_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.session_inter_op_thread_pool.add(num_threads=1)
    return _Room(tf1.Session(graph=graph, config=config), text, texts)
