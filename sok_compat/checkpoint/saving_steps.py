# SPDX-License-Identifier: Apache-2.0
"""In which steps checkpoints are saved, on all ranks the same."""

import time

from sok_compat.runtime.shared_texts import value_of_rank_0

MOST_SECONDS = 10.0  # between two looks at the clock


def saving_steps(seconds, steps, graph):
    """What says in which steps to save.

    Args:
      seconds: between two checkpoints; None: `steps` counts.
      steps: likewise.
      graph: of the session.
    """
    return EverySoManySteps(steps) if seconds is None else EverySoManySeconds(seconds, graph)


class EverySoManySteps:
    """As tf.train.SecondOrStepTimer(every_steps=...)."""

    def __init__(self, steps):
        self._steps = steps
        self._saved_at = None

    def is_due(self, step):
        """Whether to save in a step; asked for in each."""
        return step >= self._saved_at + self._steps

    def is_saved(self, step):
        """Whether that was the last step to be saved."""
        return step == self._saved_at

    def note_saved(self, step):
        """From here on it counts."""
        self._saved_at = step


class EverySoManySeconds(EverySoManySteps):
    """As tf.train.SecondOrStepTimer(every_secs=...), by the clock of rank 0.

    Ranks look at it in the same steps, first in each, then ever more seldom: when half of the time
    that is left has passed, at the speed of the last steps, but each MOST_SECONDS.
    """

    def __init__(self, seconds, graph=None, clock=time.monotonic):
        super().__init__(0)
        self._seconds, self._graph, self._clock = seconds, graph, clock
        self._next_look = 0  # a step
        self._last_look = None  # rank 0's: (step, time)
        self._saved_time = None

    def is_due(self, step):
        """See above. Waits for the other ranks where they look at the clock."""
        if step < self._next_look:
            return False
        is_due, self._next_look = value_of_rank_0(
            "time_to_save", lambda: self._look(step), self._graph
        )
        return is_due

    def note_saved(self, step):
        """See above."""
        super().note_saved(step)
        self._saved_time = self._clock()
        self._next_look = max(self._next_look, step + 1)

    def _look(self, step):
        """[whether to save, the step in which to look again]"""
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
