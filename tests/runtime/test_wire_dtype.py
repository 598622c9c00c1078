# SPDX-License-Identifier: Apache-2.0
"""As what rows and gradients travel: which setting holds for which graph."""

import pytest
import tensorflow as tf

import sok_compat as sok
from sok_compat.ranks.wire_dtype import wire_dtype
from sok_compat.runtime.settings import WIRE_DTYPE
from tests.support.processes.subprocess_python import run_python


def chosen(**settings):
    """What holds for a graph after Init, and for a function in it."""
    with tf.Graph().as_default():
        sok.Init(global_batch_size=4, **settings)
        inside = []
        tf.function(lambda: inside.append(wire_dtype())).get_concrete_function()
        return [wire_dtype(), *inside]


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16", tf.bfloat16])
def test_init_settles_it_for_its_graph(name):
    assert chosen(wire_dtype=name) == [tf.as_dtype(name).name] * 2
    assert chosen() == ["float32"] * 2


def test_the_environment_settles_it_where_init_does_not(monkeypatch):
    monkeypatch.setenv(WIRE_DTYPE.name, "bfloat16")
    assert chosen() == chosen(wire_dtype=None) == ["bfloat16"] * 2
    assert chosen(wire_dtype="float32") == ["float32"] * 2
    with tf.Graph().as_default():
        assert wire_dtype() == "bfloat16"  # without Init


def test_another_name_raises():
    with pytest.raises(ValueError, match="wire_dtype must be one of float32, .*, got 'half'"):
        chosen(wire_dtype="half")
    with pytest.raises(ValueError, match="got tf.float64"):
        chosen(wire_dtype=tf.float64)


def test_eager_mode():
    run_python(
        "import sok_compat as sok\n"
        "from sok_compat.ranks.wire_dtype import wire_dtype\n"
        "sok.Init(global_batch_size=4, wire_dtype='float16')\n"
        "assert wire_dtype() == 'float16'\n"
        "sok.Init(global_batch_size=4)\n"
        "assert wire_dtype() == 'float32'\n"
    )
