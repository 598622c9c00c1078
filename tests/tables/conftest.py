# SPDX-License-Identifier: Apache-2.0
"""Tables without sok.Init: the ways in which TensorFlow runs what uses them."""

import contextlib

import pytest
import tensorflow as tf

from sok_compat.runtime.tf_versions import keras_of_layers as keras
from tests.support.processes.runs import EagerRun, FunctionRun, GraphRun

RUNS = {"graph": GraphRun, "function": FunctionRun, "eager": EagerRun}


@pytest.fixture(params=RUNS)
def run(request):
    """A way to run steps; tables are made inside."""
    is_graph = request.param == "graph"
    keras.backend.clear_session()  # names start over
    with tf.Graph().as_default() if is_graph else contextlib.nullcontext():
        yield RUNS[request.param]()
    keras.backend.clear_session()
