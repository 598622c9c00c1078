# SPDX-License-Identifier: Apache-2.0
"""`RequestGate`: requests run beside each other, a swap of the contents runs alone."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class RequestGate:
    """Many requests, or one swap. A swap waits for the requests that run, later ones wait for it.

    Requests take no lock: each enters itself in a dict and then looks whether the gate is open; a
    swap closes the gate and then looks who is in the dict.
    """

    def __init__(self) -> None:
        self._running: dict[object, None] = {}
        self._is_open, self._has_left = threading.Event(), threading.Event()
        self._is_open.set()

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """Context of a request."""
        token = object()
        try:  # an interrupt may come at any moment
            self._running[token] = None
            while not self._is_open.is_set():
                self._leave(token)
                self._is_open.wait()
                self._running[token] = None
            yield
        finally:
            self._leave(token)

    def _leave(self, token: object) -> None:
        self._running.pop(token, None)
        if not self._is_open.is_set():
            self._has_left.set()

    @contextlib.contextmanager
    def swap(self) -> Iterator[None]:
        """Context of a swap; one at a time."""
        try:
            self._is_open.clear()
            while True:
                self._has_left.clear()
                if not self._running:
                    break
                self._has_left.wait()
            yield
        finally:
            self._is_open.set()
