# SPDX-License-Identifier: Apache-2.0
"""`Connection`: what connects the ranks of a job below exchanges."""

from __future__ import annotations

import abc
from typing import Protocol


class SignedList(Protocol):
    """A list that ranks sign.

    Attributes:
      exists: whether the list exists.
    """

    exists: bool

    def sign(self, rank: int, text: str) -> None:
        """Stores this rank's line."""

    def lines(self) -> dict[int, str]:
        """{rank: line} of the ranks that have signed; empty if this is unknown."""
        ...


class Connection(abc.ABC):
    """Gathers lines from all ranks, and carries the messages of exchanges.

    Attributes:
      rank, size: of the job.
      name: of what carries messages, for logs.
      who_is_absent: what messages add to "another rank" where it is not known which.
      attendance, survivors: the ranks before exchanges start, and after one was lost.
    """

    rank: int
    size: int
    name: str
    who_is_absent = ""
    attendance: SignedList
    survivors: SignedList

    @abc.abstractmethod
    def gather(self, line: str) -> list[str]:
        """The lines of all ranks, by rank. Waits for them."""

    def prepare(self, heartbeat_seconds: float) -> None:  # noqa: B027
        """Gets ready to carry messages once exchanges start.

        Raises:
          RuntimeError: it cannot.
        """

    def run(self) -> None:  # noqa: B027
        """Carries messages until the exchanges end, if that takes a thread of Python."""

    def abandon(self) -> None:  # noqa: B027
        """Lets the process end after a rank was lost."""
