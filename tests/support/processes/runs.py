# SPDX-License-Identifier: Apache-2.0
"""One piece of code on arrays, run as TensorFlow can: in a graph, in a function, eagerly."""

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1


class EagerRun:
    """Calls."""

    def __call__(self, compute, *arrays):
        """What `compute` gives for the arrays as tensors, as arrays; an op gives None."""
        return self.repeated(compute)(*arrays)

    def repeated(self, compute):
        """A function of arrays that does `compute` each time it is called."""
        return lambda *arrays: self._arrays(compute(*map(tf.constant, arrays)))

    def apply(self, optimizer, loss_of, variable):
        """One step of a Keras or TF1 optimizer, inside of `compute`; the loss before it."""
        with tf.GradientTape() as tape:
            loss = loss_of()
        optimizer.apply_gradients([(tape.gradient(loss, variable), variable)])
        return loss

    def gradient(self, loss_of, variable):
        """(loss, its gradient as IndexedSlices), inside of `compute`."""
        with tf.GradientTape() as tape:
            loss = loss_of()
        return loss, tape.gradient(loss, variable)

    def _arrays(self, results):
        is_op = results is None or isinstance(results, tf.Operation)
        return None if is_op else tf.nest.map_structure(lambda x: x.numpy(), results)


class FunctionRun(EagerRun):
    """Calls a tf.function."""

    def repeated(self, compute):
        def results(*tensors):
            found = compute(*tensors)
            return None if isinstance(found, tf.Operation) else found  # it runs all the same

        traced = tf.function(results, autograph=False, reduce_retracing=True)
        return lambda *arrays: self._arrays(traced(*map(tf.constant, arrays)))


class GraphRun(EagerRun):
    """Runs the default graph in one session. Variables are initialized once, when first met."""

    def __init__(self):
        self._session = tf1.Session()
        self._initialized = set()

    def repeated(self, compute):
        built = {}

        def step(*arrays):
            arrays = [np.asarray(array) for array in arrays]
            if not built:
                built["inputs"] = [
                    tf1.placeholder(x.dtype, [None, *x.shape[1:]][: x.ndim]) for x in arrays
                ]
                built["results"] = compute(*built["inputs"])
                self._initialize()
            if built["results"] is None:
                return None
            return self._session.run(built["results"], dict(zip(built["inputs"], arrays)))

        return step

    def apply(self, optimizer, loss_of, variable):
        loss, gradient = self.gradient(loss_of, variable)
        update = optimizer.apply_gradients([(gradient, variable)])
        with tf.control_dependencies([loss]):
            loss = tf.identity(loss)
        with tf.control_dependencies([update]):
            return tf.identity(loss)

    def gradient(self, loss_of, variable):
        loss = loss_of()
        return loss, tf.gradients(loss, [variable])[0]

    def _initialize(self):
        variables = [v for v in tf1.global_variables() if v.ref() not in self._initialized]
        self._initialized |= {v.ref() for v in variables}
        self._session.run([v.initializer for v in variables])
