# SPDX-License-Identifier: Apache-2.0
"""Tests of filters, eviction, increments, default rows and exports once more, of variables whose
rows have two bytes by default; and their prefetched lookups and dumps."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat as sok
from sok_compat.runtime.settings import ROW_DTYPE
from sok_compat.tables import Table
from tests.deeprec.test_admission import (  # noqa: F401
    test_a_key_gets_its_row_when_it_has_come_often_enough,
    test_gradients_of_keys_without_a_row_are_left_out,
)
from tests.deeprec.test_default_rows import test_one_default_row  # noqa: F401
from tests.deeprec.test_eviction import (  # noqa: F401
    test_old_keys_are_gone_from_increments,
    test_old_keys_go_when_a_checkpoint_is_saved,
)
from tests.saver.test_exported_models import (  # noqa: F401
    served,
    test_missing_keys,
    test_rows_are_those_that_were_trained,
    trained,
)
from tests.support.lookups import lookup

tf1 = tf.compat.v1


@pytest.fixture(params=["bfloat16", "float16"], scope="module", autouse=True)
def row_dtype(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ROW_DTYPE.name, request.param)
        yield request.param


def rows_of_steps(prefetches):
    """After four steps, by key."""
    with tf.Graph().as_default(), tf1.Session() as session:
        sok.Init(global_batch_size=2, seed=1)
        table = Table(None, 4, "random_normal", name="table")
        batches = tf.data.Dataset.from_tensor_slices(np.array([[3, 4], [4, 5], [6, 3], [5, 5]]))
        keys = tf1.data.make_one_shot_iterator(batches).get_next()
        keys = sok.prefetch_lookups(keys) if prefetches else keys
        loss = tf.reduce_sum((lookup(table, keys, True) - 1.0) ** 2)
        with sok.OptimizerScope([table]):
            step = tf1.train.AdagradOptimizer(0.1).minimize(loss, var_list=[table])
        session.run(tf1.global_variables_initializer())
        coordinator = tf1.train.Coordinator()
        threads = tf1.train.start_queue_runners(session, coordinator)
        for _ in range(4):
            session.run(step)
        coordinator.request_stop()
        coordinator.join(threads)
        keys, rows = session.run(table.export())
        return rows[np.argsort(keys)]


def test_prefetched_lookups_give_the_same_bits():
    np.testing.assert_array_equal(rows_of_steps(True), rows_of_steps(False))


def test_dumps_are_float32(row_dtype, tmp_path):
    exported = []
    for dtype in (None, "float32", row_dtype):
        with tf.Graph().as_default(), tf1.Session() as session:
            variable = sok.DynamicVariable(4, "random", name="dynamic", dtype=dtype)
            look_up = sok.all2all_dense_embedding(variable, [5, -7, 2**40])
            session.run(variable.initializer)
            if dtype is None:
                session.run(look_up)
                sok.dump(tmp_path, variable)
            else:
                sok.load(tmp_path, variable)
            assert variable.row_dtype == (dtype or row_dtype)
            exported.append(session.run(variable.export()))
    for keys, rows in exported[1:]:
        np.testing.assert_array_equal(keys, exported[0][0])
        np.testing.assert_array_equal(rows, exported[0][1])
