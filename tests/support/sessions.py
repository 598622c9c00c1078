# SPDX-License-Identifier: Apache-2.0
"""Sessions for tests."""

import contextlib

import tensorflow as tf


@contextlib.contextmanager
def initialized_session(graph=None, rewrites=True):
    """A session of the default graph (or `graph`) in which all variables are initialized.

    rewrites=False: TensorFlow runs the graph as it is, and starts in half the time.
    """
    graph = graph or tf.compat.v1.get_default_graph()
    with graph.as_default():
        init = tf.compat.v1.global_variables_initializer()
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = not rewrites
    with tf.compat.v1.Session(graph=graph, config=config) as session:
        session.run(init)
        yield session
