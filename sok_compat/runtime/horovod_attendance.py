# SPDX-License-Identifier: Apache-2.0
"""Which ranks have come, while no collective can tell: in the store of Horovod's launcher."""

import http.client
import os

_ADDRESS_VARIABLES = ("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT")
_SCOPE = "sok_compat"
_TIMEOUT_SECONDS = 2.0


class Attendance:
    """A list that each rank signs; none where the launcher has no such store (mpirun)."""

    def __init__(self, size):
        self._size = size
        self._address = tuple(os.environ.get(variable) for variable in _ADDRESS_VARIABLES)

    def sign(self, rank, text):
        """Puts this rank's line."""
        self._ask("PUT", rank, text.encode())

    def lines(self):
        """{rank: line} of those that have signed; empty where there is no list."""
        found = {rank: self._ask("GET", rank) for rank in range(self._size)}
        return {rank: line.decode() for rank, line in found.items() if line is not None}

    def _ask(self, method, rank, body=None):
        """The answer's bytes; None: there are none. What cannot be reached is for messages only."""
        if not all(self._address):
            return None
        host, port = self._address
        connection = http.client.HTTPConnection(host, int(port), timeout=_TIMEOUT_SECONDS)
        try:
            connection.request(method, f"/{_SCOPE}/{rank}", body)
            answer = connection.getresponse()
            return answer.read() if answer.status == http.client.OK else None
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
