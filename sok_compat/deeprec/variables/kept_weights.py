# SPDX-License-Identifier: Apache-2.0
"""`tf.variable_scope(...).keep_weights()`: weights of full precision below a model of less."""

import tensorflow.compat.v1 as tf


class VariableScope(tf.variable_scope):
    """As tf.compat.v1.variable_scope. API of DeepRec."""

    def keep_weights(self, dtype=tf.float32):
        """The scope as a context in which variables of other floats are kept as `dtype`.

        Where the model asks for a variable of tf.bfloat16, say, it gets the cast of one of `dtype`,
        which is what is trained and saved.
        """
        return _KeptWeights(self, tf.as_dtype(dtype))


class _KeptWeights:
    def __init__(self, scope, dtype):
        self._scope = scope
        self._dtype = dtype

    def __enter__(self):
        entered = self._scope.__enter__()
        entered.set_custom_getter(_kept(entered.custom_getter, self._dtype))
        return entered

    def __exit__(self, *exception):
        return self._scope.__exit__(*exception)


def _kept(before, kept_dtype):
    """A custom getter around the one that the scope has, if any."""

    def get(getter, *args, dtype=None, **kwargs):
        asked = tf.as_dtype(tf.float32 if dtype is None else dtype)
        is_kept = asked.is_floating and asked != kept_dtype
        kwargs["dtype"] = kept_dtype if is_kept else dtype
        variable = before(getter, *args, **kwargs) if before else getter(*args, **kwargs)
        return tf.cast(variable, asked) if is_kept else variable

    return get


NAMES = {"variable_scope": VariableScope}
