# SPDX-License-Identifier: Apache-2.0
"""Strategies of `tf.distribute` with the method names of TensorFlow 1.15."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf


def _with_older_names(strategy: Any) -> Any:
    """A subclass that has `run` as `experimental_run_v2`, too."""
    names = {"__doc__": strategy.__doc__, "experimental_run_v2": strategy.run}
    return type(strategy.__name__, (strategy,), names)


MirroredStrategy = _with_older_names(tf.distribute.MirroredStrategy)
OneDeviceStrategy = _with_older_names(tf.distribute.OneDeviceStrategy)
