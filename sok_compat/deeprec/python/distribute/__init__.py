# SPDX-License-Identifier: Apache-2.0
"""What DeepRec adds to `tensorflow.python.distribute`; all else of it is TensorFlow's."""

import importlib


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("tensorflow.python.distribute"), name)
