# SPDX-License-Identifier: Apache-2.0
"""All-gathers of strings, by which ranks communicate between steps."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from sok_compat.ranks.collectives import number_of_graph
from sok_compat.ranks.identity import current_ranks, is_connected
from sok_compat.runtime.error_texts import first_line
from sok_compat.runtime.op_library import TAKE_STRING, c_library, note_lookup

_ERROR_BYTES = 4000


def allgather_strings(
    where: str,
    text: str = "",
    graph: tf.Graph | None = None,
    is_patient: bool = False,
    ends_session: bool = False,
) -> list[str]:
    """Gathers a string from each rank; all ranks wait for one another here.

    Args:
      where: name of the collective, also in messages.
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
    gathered = allgather_bytes(where, text.encode(), graph, is_patient, ends_session)
    return [each.decode() for each in gathered]


def allgather_bytes(
    where: str,
    data: bytes = b"",
    graph: tf.Graph | None = None,
    is_patient: bool = False,
    ends_session: bool = False,
) -> list[bytes]:
    """As allgather_strings, for bytes."""
    if not is_connected():
        return [data]
    received: list[bytes] = []

    def take(address, size):
        received.append((ctypes.c_char * size).from_address(address).raw)

    message = ctypes.create_string_buffer(_ERROR_BYTES)
    number = _number_of(graph)
    code = c_library.sok_exchange_strings(
        *(where.encode(), number, data, len(data), is_patient, ends_session),
        *(TAKE_STRING(take), message, len(message)),
    )
    if code:
        kind = tf.compat.v1.errors.exception_type_from_error_code(code)
        raise kind(None, None, message.value.decode(errors="replace"))
    return received


def expect_end_of_session(where: str, graph: tf.Graph) -> None:
    """Makes this rank know allgather_strings(where, graph=graph, ends_session=True), which others
    may call while it runs steps."""
    if is_connected():
        note_lookup(where, _number_of(graph))


def value_of_rank_0(
    where: str, make: Callable[[], Any], graph: tf.Graph | None = None, is_patient: bool = False
) -> Any:
    """Calls make() on rank 0 only, and returns its value, which JSON can represent, on all ranks.

    Raises:
      Exception: on rank 0, the error of make().
      tf.errors.UnknownError: on the other ranks, if make() raised; or as for allgather_strings.
    """
    if not is_connected():
        return make()
    reply: dict[str, Any] = {}
    error: Exception | None = None
    if current_ranks().rank == 0:
        try:
            reply = {"value": make()}
        except Exception as raised:  # noqa: BLE001  whatever it is, others must not wait
            error = raised
            reply = {"error": f"{type(raised).__name__}: {first_line(raised)}"}
    reply = json.loads(allgather_strings(where, json.dumps(reply), graph, is_patient)[0])
    if error is not None:
        raise error
    if "error" in reply:
        raise tf.errors.UnknownError(None, None, f"{where}: rank 0 has failed: {reply['error']}")
    return reply["value"]


def _number_of(graph):
    return -1 if graph is None else number_of_graph(graph)
