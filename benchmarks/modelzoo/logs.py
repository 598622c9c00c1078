# SPDX-License-Identifier: Apache-2.0
"""What a run's output says: losses, AUC, speed, and the error that ended it."""

import dataclasses
import re
import statistics
from typing import Optional

_NUMBER = r"([-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf))"
_LOSS = re.compile(rf"(?<!\w)(?:train_)?loss(?: for final step)?\s*[=:]\s*{_NUMBER}", re.I)
_AUC = re.compile(rf"\b(?:test_)?(auc\d?)\b\s*[=:]\s*{_NUMBER}", re.I)
_RATE = re.compile(rf"global_step/sec: {_NUMBER}")
_MILLISECONDS = re.compile(rf"Avg:{_NUMBER}ms/iter")
# Not when the session has closed: that waits for a thread of tf.data, for as long as training took.
_END_OF_TRAINING = re.compile(r"Saving checkpoints|Training completed|Loss for final step|Evaluat")
_OF_EVALUATION = "Saving dict for global step"
_RANK = re.compile(r"^\[(?:\d+,)?(\d+)\]<\w+>:")  # as horovodrun begins lines
# The last line of a traceback, what argparse says, or what C++ code says before it aborts.
_ERROR = re.compile(
    r"^(?:[\w.]*(?:Error|Exception|Exit|Interrupt)\b.*|\S+: error: .*|\[\w+ FATAL .*)$"
)
_NOISE = re.compile(r"Horovod detected that|^Exit code|^Process name|^File \"")


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of output."""

    seconds: float  # since the start of the run
    text: str


@dataclasses.dataclass(frozen=True)
class Findings:
    """What the lines say; None or empty where they do not."""

    first_loss: Optional[float] = None
    last_loss: Optional[float] = None
    first_step_seconds: Optional[float] = None
    steps_per_second: Optional[float] = None
    aucs: tuple = ()

    @property
    def has_trained(self):
        """Whether there was a step."""
        return self.first_loss is not None or bool(self.aucs) or self.steps_per_second is not None


def read(lines, steps):
    """Findings in [Line], those of rank 0 where several ranks have written.

    Args:
      lines: [Line].
      steps: how many the run was told to make.
    """
    lines = [line for line in lines if _rank_of(line.text) == 0]
    losses = [(line.seconds, float(match[1])) for line, match in _matches(_LOSS, lines)]
    aucs = {match[1].upper(): float(match[2]) for _, match in _matches(_AUC, lines)}
    return Findings(
        first_loss=losses[0][1] if losses else None,
        last_loss=losses[-1][1] if losses else None,
        first_step_seconds=losses[0][0] if losses else None,
        steps_per_second=_steps_per_second(lines, losses, steps),
        aucs=tuple(aucs.values()),
    )


def error_of(texts):
    """The line that says why a run failed: the last error in the output, else its last line."""
    texts = [_RANK.sub("", text).strip() for text in texts]
    texts = [text for text in texts if text and not _NOISE.search(text)]
    errors = [i for i in range(len(texts)) if _ERROR.match(texts[i])]
    whole = [texts[i] for i in errors if not texts[i].endswith(":")]
    if errors and texts[errors[-1]].endswith(":"):
        # TensorFlow repeats an error with a heading; else the message begins on the next line.
        return whole[-1] if whole else " ".join(texts[errors[-1] : errors[-1] + 2])
    if whole:
        return whole[-1]
    return texts[-1] if texts else "no output"


def _rank_of(text):
    match = _RANK.match(text)
    return int(match[1]) if match else 0


def _matches(pattern, lines):
    """Yields (line, match) where a line of training matches."""
    for line in lines:
        match = pattern.search(line.text)
        if match and (pattern is not _LOSS or _OF_EVALUATION not in line.text):
            yield line, match


def _steps_per_second(lines, losses, steps):
    """The median of what the script says, without the first; else by the time from the first step
    to the end of training."""
    rates = [float(match[1]) for _, match in _matches(_RATE, lines)]
    rates += [1e3 / float(match[1]) for _, match in _matches(_MILLISECONDS, lines)]
    if rates:
        return statistics.median(rates[1:] or rates)
    if not losses:
        return None
    first = losses[0][0]
    ends = [line.seconds for line, _ in _matches(_END_OF_TRAINING, lines)]
    ends = [end for end in ends if end > first]
    return (steps - 1) / (ends[0] - first) if ends and steps > 1 else None
