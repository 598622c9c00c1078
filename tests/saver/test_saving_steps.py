# SPDX-License-Identifier: Apache-2.0
"""When checkpoints are due, and where the hooks stand that save them."""

import pytest

from sok_compat.checkpoint.sessions import restored_sessions as sessions
from sok_compat.checkpoint.sessions.saving_steps import EverySoManySeconds, EverySoManySteps


def saved_and_looked(seconds, step_seconds, num_steps):
    """(steps in which it saves, how often it looks at the clock) with steps of that time."""
    now, looks = [0.0], []
    steps = EverySoManySeconds(seconds, clock=lambda: now[0])
    look = steps._look
    steps._look = lambda step: looks.append(step) or look(step)
    steps.note_saved(0)
    saved = []
    for step in range(1, num_steps + 1):
        now[0] += step_seconds(step)
        if steps.is_due(step):
            steps.note_saved(step)
            saved.append(step)
    return saved, looks


@pytest.mark.parametrize("step_seconds", [0.01, 0.1, 2.0, 700.0])
def test_seconds_are_kept_with_few_looks(step_seconds):
    num_steps = int(2000 / step_seconds) + 1
    saved, looks = saved_and_looked(600.0, lambda step: step_seconds, num_steps)
    # Up to a second late, or a step, and as much again where the speed was not known yet.
    steps_between = max(1, 600 / step_seconds)
    assert len(saved) == min(3, num_steps)
    for number, step in enumerate(saved):
        late = (step - (saved[number - 1] if number else 0) - steps_between) * step_seconds
        assert -1e-6 <= late <= max(2.0, step_seconds)
    assert len(looks) <= min(num_steps, 300 + 20)


def test_steps_that_become_slower_delay_a_checkpoint_by_seconds():
    saved, _ = saved_and_looked(60.0, lambda step: 0.01 if step < 5000 else 0.5, 5400)
    in_seconds = [step * 0.01 if step < 5000 else 50 + (step - 4999) * 0.5 for step in saved]
    assert 60 <= in_seconds[0] < 60 + 250  # half of what was left then, 50 times as slow


def test_steps():
    steps = EverySoManySteps(3)
    steps.note_saved(4)
    assert [step for step in range(4, 9) if steps.is_due(step)] == [7, 8]
    assert steps.is_saved(4) and not steps.is_saved(7)


@pytest.mark.parametrize("mine, first, at, place", [
    (["B"], ["C", "S", "B"], 1, 0),
    (["B"], ["B", "S"], 1, 1),
    (["X", "B", "Y"], ["C", "B", "S", "Y"], 2, 2),
    (["B", "B"], ["B", "S", "B"], 1, 1),
    ([], ["S"], 0, 0),
])  # fmt: skip
def test_a_hook_that_rank_0_alone_has_comes_after_what_comes_before_it_there(
    mine, first, at, place
):
    assert sessions._place(mine, first, at) == place
