# SPDX-License-Identifier: Apache-2.0
"""What this API starts by itself ends with the tests of each file; and the behaviour of TensorFlow
that the tests run in."""

import sys

import pytest
import tensorflow as tf

from tests.support.behaviors import IS_TF1

tf1 = tf.compat.v1
if IS_TF1:
    tf1.disable_v2_behavior()


@pytest.fixture(autouse=True)
def behavior():
    """In that of TensorFlow 1, a graph and a session, both the default ones."""
    if not IS_TF1:
        yield
        return
    with tf.Graph().as_default(), tf1.Session():
        yield


@pytest.fixture(autouse=True, scope="module")
def horovod_is_shut_down():
    yield
    horovod = sys.modules.get("horovod.tensorflow")
    if horovod is not None and horovod.is_initialized():
        horovod.shutdown()
