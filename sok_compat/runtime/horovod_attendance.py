# SPDX-License-Identifier: Apache-2.0
"""Which ranks have come, while no collective can tell: in the store of Horovod's launcher."""

import http.client
import os

_ADDRESS_VARIABLES = ("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT")
_TIMEOUT_SECONDS = 2.0


class Attendance:
    """A list that each rank signs; none where the launcher has no such store (mpirun).

    Attributes:
      exists: whether there is one.
    """

    def __init__(self, size, name="sok_compat"):
        """
        Args:
          size: the number of ranks.
          name: of the list.
        """
        self._size = size
        self._name = name
        self._address = tuple(os.environ.get(variable) for variable in _ADDRESS_VARIABLES)
        self.exists = all(self._address)

    def sign(self, rank, text):
        """Puts this rank's line."""
        self._ask("PUT", rank, text.encode())

    def lines(self):
        """{rank: line} of those that have signed; empty where there is no list, or no way to it."""
        found = {}
        for rank in range(self._size):
            line = self._ask("GET", rank)
            if line is None:
                break
            if line:
                found[rank] = line.decode()
        return found

    def _ask(self, method, rank, body=None):
        """The answer's bytes, empty where there is no such line; None: there is no way to the list,
        which is for messages only."""
        if not self.exists:
            return None
        host, port = self._address
        connection = http.client.HTTPConnection(host, int(port), timeout=_TIMEOUT_SECONDS)
        try:
            connection.request(method, f"/{self._name}/{rank}", body)
            answer = connection.getresponse()
            return answer.read() if answer.status == http.client.OK else b""
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
