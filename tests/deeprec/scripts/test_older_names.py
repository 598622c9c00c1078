# SPDX-License-Identifier: Apache-2.0
"""Names by which libraries for DeepRec and PAI-TensorFlow make embedding variables."""

from tests.support.processes.subprocess_python import run_python

SCRIPT = """
import tensorflow as tf
from tensorflow.python.ops import kv_variable_ops, variable_scope, variables

assert "EmbeddingVariableConfig" in dir(variables) and variables.PartitionedVariable
assert variable_scope.get_variable is tf.get_variable
option = variables.EmbeddingVariableOption()
option.filter_strategy = variables.CounterFilter(filter_freq=2)
older = {"filter_options": variables.CounterFilterOptions(2)}
for name, arguments in (("newer", {"ev_option": option}), ("older", older)):
    found = variable_scope.get_embedding_variable(
        name=name, embedding_dim=4, initializer=tf.ones_initializer(), trainable=True,
        partitioner=None, collections=None, steps_to_live=None, **arguments)
    assert isinstance(found, kv_variable_ops.EmbeddingVariable)
    assert found._shared_name == name and found.ev_option.filter_strategy.filter_freq == 2
plain = variable_scope.get_embedding_variable("plain", 4)
assert plain.ev_option.filter_strategy is None
try:
    variables.EmbeddingVariableConfig(steps_to_live=3)
except NotImplementedError as error:
    print(error)
"""


def test_libraries_make_embedding_variables():
    printed = run_python(f"""
        from sok_compat.run.script_modules import own_code, read_imports_as_tensorflow_1
        read_imports_as_tensorflow_1()
        exec(own_code({SCRIPT!r}, "script.py"), {{"__name__": "__main__"}})
    """)
    assert "give tf.get_embedding_variable an ev_option" in printed
