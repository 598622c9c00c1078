# SPDX-License-Identifier: Apache-2.0
"""A gradient tape over the ranks of MPI, in the place of Horovod's."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from sok_compat.ranks.job import Job


class TapeOfRanks:
    """A tf.GradientTape whose gradients are means, or sums, over ranks."""

    def __init__(self, job: Job, gradtape: tf.GradientTape, op: str) -> None:
        """`gradtape` is that of this rank's loss."""
        self._op = op
        self._job = job
        self._tape = gradtape

    def __enter__(self) -> TapeOfRanks:
        self._tape.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._tape.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tape, name)

    @tf.autograph.experimental.do_not_convert
    def gradient(self, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        """As tf.GradientTape.gradient, reduced over ranks, also of tables."""
        gradients = self._tape.gradient(target, sources, *args, **kwargs)
        averaged = [
            None if gradient is None else self._job.allreduce(gradient, op=self._op)
            for gradient in tf.nest.flatten(gradients)
        ]
        return tf.nest.pack_sequence_as(gradients, averaged)
