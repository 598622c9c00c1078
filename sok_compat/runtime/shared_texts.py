# SPDX-License-Identifier: Apache-2.0
"""What ranks tell one another between steps: texts, each for all."""

import dataclasses
import json
import threading
import weakref
from typing import Any

import tensorflow as tf

from sok_compat.runtime.exchange import first_line
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.ranks import horovod_ranks, is_connected
from sok_compat.runtime.tickets import begin_lookup, graph_beside

tf1 = tf.compat.v1

_rooms = {}  # {(where, whether it is patient): _Room}
_rooms_beside = weakref.WeakKeyDictionary()  # {graph: the same}
_making = threading.Lock()


@dataclasses.dataclass(frozen=True)
class _Room:
    session: Any
    text: Any
    texts: Any


def share_text(where, text="", graph=None, is_patient=False):
    """What each rank has to say, a list by rank; all ranks wait for one another here.

    Args:
      where: ranks meet, for messages; a name of an op.
      text: this rank's.
      graph: of the session that it is about, after whose graph ranks that have come apart may meet
        again; None: of none.
      is_patient: whether they wait as long as it takes, for what is sure to come.

    Raises:
      tf.errors.UnknownError: another rank has failed or left, or has not come here for as long as
        a step waits.
    """
    return [each.decode() for each in share_bytes(where, text.encode(), graph, is_patient)]


def share_bytes(where, data=b"", graph=None, is_patient=False):
    """As share_text, of bytes."""
    if not is_connected():
        return [data]
    room = _room(where, graph, is_patient)
    try:
        return room.session.run(room.texts, {room.text: data}).tolist()
    except tf.errors.OpError as error:  # without the stack of who made the room
        raise type(error)(None, None, first_line(error, 4000)) from None


def value_of_rank_0(where, make, graph=None):
    """What make() gives on rank 0, which alone calls it, on all ranks; or its error.

    Args:
      where: as of share_text.
      make: a function without arguments; its value is one that JSON has.
      graph: as of share_text.

    Raises:
      Exception: what it raises, on rank 0.
      tf.errors.UnknownError: it has raised there, on the others; or as of share_text.
    """
    if not is_connected():
        return make()
    said, error = {}, None
    if horovod_ranks().rank == 0:
        try:
            said = {"value": make()}
        except Exception as raised:  # noqa: BLE001  whatever it is, others must not wait
            error = raised
            said = {"error": f"{type(raised).__name__}: {first_line(raised)}"}
    said = json.loads(share_text(where, json.dumps(said), graph)[0])
    if error is not None:
        raise error
    if "error" in said:
        raise tf.errors.UnknownError(None, None, f"{where}: rank 0 has failed: {said['error']}")
    return said["value"]


def _room(where, beside, is_patient):
    with _making:
        rooms = _rooms if beside is None else _rooms_beside.setdefault(beside, {})
        key = where, is_patient
        if key not in rooms:
            rooms[key] = _make_room(where, beside, is_patient)
        return rooms[key]


def _make_room(where, beside, is_patient):
    with graph_beside(beside).as_default() as graph, tf.device("CPU:0"):
        text = tf1.placeholder(tf.string, [])
        ticket = begin_lookup(where, op_name=f"sok_compat.{where}")
        texts = ops.sok_share_texts(text, ticket, is_patient=is_patient)
    # A thread of its own: a training graph that fills TensorFlow's pool must not stop ranks from
    # talking.
    config = tf1.ConfigProto(device_count={"GPU": 0}, intra_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.session_inter_op_thread_pool.add(num_threads=1)
    return _Room(tf1.Session(graph=graph, config=config), text, texts)
