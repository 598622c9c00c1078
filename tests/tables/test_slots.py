# SPDX-License-Identifier: Apache-2.0
"""`slot_for`: the planes of optimizers, made once and found again."""

import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.tables import Table, slot_for
from tests.support.lookups import lookup
from tests.support.processes.subprocess_python import run_python


class Optimizer:
    """Anything that is an object."""


def test_one_for_each_optimizer_and_name(run):
    table, optimizer, other = Table(8, 2, name="x"), Optimizer(), Optimizer()
    slot = slot_for(table, optimizer, "m")
    assert slot_for(table, optimizer, "m") is slot
    others = [
        slot_for(table, optimizer, "v", width=5),
        slot_for(table, other, "m"),
        slot_for(table, "an optimizer", "m"),
        slot_for(Table(8, 2, name="y"), optimizer, "m"),
    ]
    assert len({id(each) for each in (slot, *others)}) == 5
    assert slot_for(table, "an " + "optimizer", "m") is others[2]
    assert [each.name for each in (slot, *others)] == ["x/m:0", "x/v:0", "x/m_1:0", "x/m_2:0",
                                                       "y/m:0"]  # fmt: skip
    assert slot.shape == [8, 2] and others[0].shape == [8, 5]


def test_its_name_does_not_depend_on_where_it_is_asked_for(run):
    table = Table(8, 2, name="x")
    with tf.name_scope("train"):
        assert slot_for(table, "optimizer", "m").name == "x/m:0"


def test_rows_start_with_fill(run):
    table = Table(8, 2)
    slot = slot_for(table, "optimizer", "m", width=3, fill=0.5)
    run(lambda keys: lookup(table, keys, True), np.array([7, -7]))
    np.testing.assert_array_equal(run(slot.read_value)[:2], np.full([2, 3], 0.5))


@pytest.mark.parametrize("wanted", [dict(width=3), dict(fill=1.0)], ids=str)
def test_another_shape_is_refused(run, wanted):
    table = Table(8, 2, name="x")
    slot_for(table, "optimizer", "m")
    with pytest.raises(ValueError, match="x/m:0 was made with width 2 and fill 0.0, but slot_for"):
        slot_for(table, "optimizer", "m", **wanted)


def test_goes_with_its_optimizer_in_eager_mode():
    table, optimizer = Table(8, 2), Optimizer()
    slot = weakref.ref(slot_for(table, optimizer, "m"))
    gc.collect()
    assert slot() is not None
    del optimizer
    gc.collect()
    assert slot() is None
    lookup(table, tf.constant([1, 2]), True)  # the table has forgotten it


def test_goes_with_its_table_in_eager_mode():
    table, optimizer = Table(8, 2), Optimizer()
    slot, table = weakref.ref(slot_for(table, optimizer, "m")), None
    gc.collect()
    assert slot() is None


def test_what_is_kept_until_python_ends():
    """As by the traceback of a script's error: nothing is said of it."""
    printed = run_python(
        """
        import os
        import tensorflow as tf
        from sok_compat.tables import Table, slot_for

        os.dup2(1, 2)
        tf.kept = [slot_for(Table(8, 2), "optimizer", "m")]
        """
    )
    assert printed == ""
