# SPDX-License-Identifier: Apache-2.0
"""The memory of a server that follows a trainer."""

from tests.support.processes.subprocess_python import run_python

MEMORY = """
import numpy as np, tensorflow as tf
from sok_compat.serving.served_model import ServedModel
from sok_compat.serving.versions import Version
from sok_compat.tables import Table
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.checkpoint import IncrementalSaver, save_tables_in_checkpoints
from sok_compat.runtime.op_library import ops
from tests.support.processes.subprocess_python import peak_mib
tf1 = tf.compat.v1
NUM_KEYS, DIM = 1_000_000, 32

def build():
    keys = tf1.placeholder(tf.int64, [None])
    table = Table(None, DIM, "zeros", name="t")
    return {"keys": keys}, {"rows": lookup_group([Lookup(table, keys)], insert=False)[0]}

def save():
    with tf.Graph().as_default():
        save_tables_in_checkpoints()
        table = Table(None, DIM, "zeros", name="t")
        keys, rows = tf1.placeholder(tf.int64), tf1.placeholder(tf.float32)
        ids = ops.sok_insert_rows(table.table_handle, keys, rows)
        change = tf.raw_ops.ResourceScatterUpdate(resource=table.handle, indices=ids, updates=rows)
        saver = IncrementalSaver()
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            for number, count in enumerate([NUM_KEYS, *[NUM_KEYS // 10] * 3, NUM_KEYS // 50]):
                some = np.full([count, DIM], number, np.float32)
                session.run(change, {keys: range(count), rows: some})
                (saver.save if number == 4 else saver.save_increment)(
                    session, folder + "/model", number)

if is_trainer:
    save()
else:
    model = ServedModel(build, "zeros", None)
    model.restore(Version.at(folder + "/model-0"))
    before = peak_mib()
    for number in range(1, 5):
        model.swap(model.read(Version.at(f"{folder}/model-{number}")))
        print(peak_mib() - before)
        rows = model.run({"keys": [0, NUM_KEYS // 50, NUM_KEYS // 2]}, "serving_default")["rows"]
        assert rows[:, 0].tolist() == [number, min(number, 3), 0]
"""


def test_memory_of_the_server(tmp_path):
    """Besides the table of 122 MiB: increments of 12 MiB, and of a whole checkpoint the rows that
    differ, and what it takes to find them."""
    folder = f"folder = {str(tmp_path)!r}\n"
    run_python(f"is_trainer = True\n{folder}{MEMORY}")
    *of_increments, of_whole = run_python(f"is_trainer = False\n{folder}{MEMORY}").splitlines()
    assert max(map(int, of_increments)) < 16, of_increments
    assert int(of_whole) < 80
