# SPDX-License-Identifier: Apache-2.0
"""When the exchanges of this rank were asked for, sent and answered, to see where a step waits."""

import ctypes
import dataclasses

from sok_compat.runtime.op_library import library_path


@dataclasses.dataclass(frozen=True)
class TracedExchange:
    """One request of one lookup. Times are time.perf_counter_ns(), the same on ranks of a host."""

    name: str
    step: int  # of this rank
    round: int  # all-to-all
    sent_bytes: int  # also to this rank itself
    asked: int  # its op had what it sends
    left: int  # the message of the round was begun
    arrived: int  # what all ranks sent was there
    begun: int  # its op went on
    ended: int  # its op had taken what came


def start_trace():
    """Keeps what comes from now on; call it when tables have been made."""
    _library().sok_exchange_start_trace()


def read_trace():
    """[TracedExchange] since the start, in the order of answers."""
    read = _library().sok_exchange_read_trace
    read.restype = ctypes.c_int64
    size = read(None, ctypes.c_int64(0))
    text = ctypes.create_string_buffer(max(size, 1))
    read(text, ctypes.c_int64(size))
    lines = text.raw[:size].decode().splitlines()
    return [TracedExchange(name, *map(int, rest)) for name, *rest in (x.split("\t") for x in lines)]


def _library():
    return ctypes.CDLL(str(library_path()))
