# SPDX-License-Identifier: Apache-2.0
"""Sessions for tests."""

import contextlib

import tensorflow as tf


@contextlib.contextmanager
def initialized_session(graph=None):
    """A session of the default graph (or `graph`) in which all variables are initialized."""
    graph = graph or tf.compat.v1.get_default_graph()
    with graph.as_default():
        init = tf.compat.v1.global_variables_initializer()
    with tf.compat.v1.Session(graph=graph) as session:
        session.run(init)
        yield session
