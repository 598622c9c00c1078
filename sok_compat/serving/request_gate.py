# SPDX-License-Identifier: Apache-2.0
"""`RequestGate`: requests run beside each other, a swap of the contents runs alone."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class RequestGate:
    """A lock that many requests share. A swap waits for those that run, later ones for the swap."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._num_running = 0
        self._is_swapping = False

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """Context of a request."""
        with self._condition:
            while self._is_swapping:
                self._condition.wait()
            self._num_running += 1
        try:
            yield
        finally:
            with self._condition:
                self._num_running -= 1
                if self._is_swapping and self._num_running == 0:
                    self._condition.notify_all()

    @contextlib.contextmanager
    def swap(self) -> Iterator[None]:
        """Context of a swap; one at a time."""
        with self._condition:
            self._is_swapping = True
            while self._num_running:
                self._condition.wait()
        try:
            yield
        finally:
            with self._condition:
                self._is_swapping = False
                self._condition.notify_all()
