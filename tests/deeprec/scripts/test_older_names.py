# SPDX-License-Identifier: Apache-2.0
"""Older names: of libraries that make embedding variables, of TensorFlow 1 and of NumPy."""

import numpy as np

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


OF_NUMPY = """
import os
import numpy as np, sys
from numpy import float as old_float
import tensorflow as tf
from tensorflow.python.framework import ops
from tensorflow.python.framework.ops import IndexedSlices

assert np.zeros(2, np.object).dtype == object and np.int(2.5) == 2 and np.float is float
assert old_float is float and np.str is str and np.NaN != np.NaN and np.product([2, 3]) == 6
assert np.PINF == np.inf == -np.NINF and np.alltrue([1, 1]) and not np.sometrue([0])
assert np.asfarray([1], np.int32).dtype == np.float_ and np.round_(2.6) == 3
assert np.msort([[3, 1], [2, 4]]).tolist() == [[2, 1], [3, 4]]
assert np.asscalar(np.array([2.5])) == 2.5 and np.bool8 is np.bool_ and np.int0 is np.intp
assert issubclass(np.VisibleDeprecationWarning, UserWarning) and issubclass(np.RankWarning, Warning)
assert np.bool_(True) and np.array(["a"]).astype(np.unicode)[0] == "a"
assert ops.IndexedSlices is IndexedSlices is tf.IndexedSlices and ops.Tensor is tf.Tensor
assert ops.convert_to_tensor_or_indexed_slices(tf.constant(1)).dtype == tf.int32
assert isinstance(ops.convert_to_tensor(2), ops.Tensor)
print("names", hasattr(np, "no_such_name"))
"""


def test_launched_scripts_have_names_that_were_dropped(tmp_path):
    dropped = [
        name for name in ("object", "float", "int", "long", "unicode") if name not in vars(np)
    ]
    assert dropped and "NaN" in vars(np) or "product" not in vars(np)
    script = tmp_path / "script.py"
    script.write_text(OF_NUMPY)
    printed = run_python(f"""
        import numpy as np
        from sok_compat.run.program import main
        before = dict(vars(np))
        main([{str(script)!r}])
        assert "object" in vars(np)
        from sok_compat.run import numpy_names
        numpy_names.restore()
        numpy_names.take_back()
        assert vars(np) == before
    """)
    assert printed.splitlines()[-1] == "names False"
