# SPDX-License-Identifier: Apache-2.0
"""Decides in which steps to save checkpoints, the same on all ranks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from sok_compat.ranks.allgather_strings import value_of_rank_0

if TYPE_CHECKING:
    import tensorflow as tf

MOST_SECONDS = 10.0  # between two checks of the clock


def saving_steps(seconds: float | None, steps: int | None, graph: tf.Graph) -> EverySoManySteps:
    """The schedule for one of two intervals, the other of which is None."""
    if seconds is not None:
        return EverySoManySeconds(seconds, graph)
    assert steps is not None
    return EverySoManySteps(steps)


class EverySoManySteps:
    """As tf.train.SecondOrStepTimer(every_steps=...)."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._saved_at = -1  # no step yet

    def is_due(self, step: int) -> bool:
        """Whether to save in a step; called in each, after the first `note_saved`."""
        return step >= self._saved_at + self._steps

    def is_saved(self, step: int) -> bool:
        """Whether `step` is the step that was saved last."""
        return step == self._saved_at

    def note_saved(self, step: int) -> None:
        """Records that a step was saved; the interval starts again."""
        self._saved_at = step


class EverySoManySeconds(EverySoManySteps):
    """As tf.train.SecondOrStepTimer(every_secs=...), by the clock of rank 0.

    Ranks check the clock in the same steps: at first in each, then less often. The next check is
    due after half of the remaining time, at the speed of the last steps, and at most MOST_SECONDS.
    """

    def __init__(
        self,
        seconds: float,
        graph: tf.Graph | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(0)
        self._seconds, self._graph, self._clock = seconds, graph, clock
        self._next_look = 0  # a step
        self._last_look: tuple[int, float] | None = None  # rank 0's: (step, time)
        self._saved_time = 0.0

    def is_due(self, step: int) -> bool:
        """See the base class. Waits for the other ranks in the steps that check the clock."""
        if step < self._next_look:
            return False
        is_due, self._next_look = value_of_rank_0(
            "time_to_save", lambda: self._look(step), self._graph
        )
        return is_due

    def note_saved(self, step: int) -> None:
        super().note_saved(step)
        self._saved_time = self._clock()
        self._next_look = max(self._next_look, step + 1)

    def _look(self, step):
        """[whether to save, the step of the next check]."""
        now = self._clock()
        left = self._saved_time + self._seconds - now
        is_due = left <= 0
        pause = min(max((self._seconds if is_due else left) / 2, 1.0), MOST_SECONDS)
        ahead = 1
        if self._last_look is not None:
            last_step, last_time = self._last_look
            per_second = (step - last_step) / max(now - last_time, 1e-9)
            ahead = max(1, int(min(per_second * pause, 2 * (step - last_step))))
        self._last_look = step, now
        return [is_due, step + ahead]
