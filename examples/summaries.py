# SPDX-License-Identifier: Apache-2.0
"""TensorBoard summaries of figures that are computed outside the graph."""

import os

import tensorflow as tf

tf1 = tf.compat.v1


class Summaries:
    """Writes figures for TensorBoard; does nothing without a folder."""

    def __init__(self, folder, graph):
        self._writer = None
        if folder is not None:
            with graph.as_default():
                self._writer = tf1.summary.FileWriter(os.fspath(folder), graph)

    def write(self, step, **figures):
        """One value for each name."""
        if self._writer is not None:
            values = [
                tf1.Summary.Value(tag=name, simple_value=value) for name, value in figures.items()
            ]
            self._writer.add_summary(tf1.Summary(value=values), step)

    def close(self):
        """Writes what is not yet written."""
        if self._writer is not None:
            self._writer.close()
