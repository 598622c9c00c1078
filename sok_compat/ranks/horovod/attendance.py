# SPDX-License-Identifier: Apache-2.0
"""A list of present ranks in the store of Horovod's launcher, for when no collective works."""

from __future__ import annotations

import http.client
import os

_ADDRESS_VARIABLES = ("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT")
_TIMEOUT_SECONDS = 2.0


class Attendance:
    """A list that each rank signs. It does not exist if the launcher has no store (mpirun).

    Attributes:
      exists: whether the list exists.
    """

    def __init__(self, size: int, name: str = "sok_compat") -> None:
        """Signs nothing yet."""
        self._size = size
        self._name = name
        self._address = tuple(os.environ.get(variable) for variable in _ADDRESS_VARIABLES)
        self.exists = all(self._address)

    def sign(self, rank: int, text: str) -> None:
        """Stores this rank's line."""
        self._ask("PUT", rank, text.encode())

    def lines(self) -> dict[int, str]:
        """{rank: line} of the ranks that have signed; empty if the list cannot be reached."""
        found: dict[int, str] = {}
        for rank in range(self._size):
            line = self._ask("GET", rank)
            if line is None:
                break
            if line:
                found[rank] = line.decode()
        return found

    def _ask(self, method, rank, body=None):
        """The reply to a request, empty if there is no such line; None if the list cannot be
        reached. Errors are ignored, as the list only improves messages."""
        if not self.exists:
            return None
        host, port = self._address
        connection = http.client.HTTPConnection(host, int(port), timeout=_TIMEOUT_SECONDS)
        try:
            connection.request(method, f"/{self._name}/{rank}", body)
            response = connection.getresponse()
            return response.read() if response.status == http.client.OK else b""
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
