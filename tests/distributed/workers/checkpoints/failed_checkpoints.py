# SPDX-License-Identifier: Apache-2.0
"""Saves and restores a table that several ranks share where that cannot be, or until it is killed.

Arguments: a folder that all ranks share; "kill", to save there for ever.
"""

import os
import shutil
import sys
import time

import numpy as np
import tensorflow as tf

from sok_compat.runtime.op_library import ops
from tests.distributed.workers.ranks import RANK, report, session_config
from tests.support.processes.killed_children import may_be_killed
from tests.support.saves.damaged_files import index_forgeries
from tests.support.saves.killed_saves import NUM_KEYS, NumberedTable

tf1 = tf.compat.v1


class Model:
    """A NumberedTable in a session, and the checkpoint `good` of it, which has the number 1."""

    def __init__(self, folder, session):
        self.folder, self.session = folder, session
        self.good = f"{folder}/good/model"
        self.numbered = NumberedTable()
        self.exported = ops.sok_export_table(self.numbered.table.table_handle)
        session.run(tf1.global_variables_initializer())
        self.fill(1)

    def fill(self, number):
        self.numbered.fill(self.session, number)

    def save(self, path):
        self.numbered.saver.save(self.session, path, write_meta_graph=False, write_state=False)

    def restore(self, path):
        self.numbered.saver.restore(self.session, path)

    def holds(self):
        """(what number the rows have, of as many keys as belong to this rank)"""
        keys, rows = self.session.run(self.exported)
        (number,) = np.unique(rows).tolist()
        assert np.unique(self.session.run(self.numbered.dense)).tolist() == [number]
        mine = [key for key in range(NUM_KEYS + int(number)) if key % 2 == RANK]
        assert sorted(keys.tolist()) == mine
        return int(number)

    def damaged(self, name, damage, file="model.data-00001-of-00002"):
        """The path of a copy, of which rank 0 damages a file: the data of rank 1."""
        copy = f"{self.folder}/{name}"
        if RANK == 0:
            shutil.copytree(f"{self.folder}/good", f"{copy}.partial")
            damage(f"{copy}.partial/{file}")
            os.rename(f"{copy}.partial", copy)
        while not os.path.exists(copy):
            time.sleep(0.01)
        return f"{copy}/model"


def flip(path):
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


def cut(path):
    os.truncate(path, os.path.getsize(path) - 1)


def forge(path):
    (damage,) = [each for what, each in index_forgeries(["numbered/rows"]) if "huge size" in what]
    damage(path.removesuffix(".index"))


def save_to_own_disks(model):
    before = os.getcwd()
    os.mkdir(f"{model.folder}/disk of {RANK}")
    os.chdir(f"{model.folder}/disk of {RANK}")
    try:
        model.save("run/model")
    finally:
        os.chdir(before)


def restore_on_rank_0(model):
    if RANK == 0:
        model.restore(model.good)


def save_on_rank_0(model):
    if RANK == 0:
        model.save(f"{model.folder}/alone/model")


FAILURES = {  # {what: what all ranks do}
    "other paths": lambda model: model.save(f"{model.folder}/of {RANK}/model"),
    "own disks": save_to_own_disks,
    "below a file": lambda model: model.save(f"{model.good}.index/model"),
    "a file is gone": lambda model: model.restore(model.damaged("gone", os.remove)),
    "a bit is flipped": lambda model: model.restore(model.damaged("flipped", flip)),
    "a file is cut": lambda model: model.restore(model.damaged("cut", cut)),
    "an index is forged": lambda model: model.restore(
        model.damaged("forged", forge, "model.index")
    ),
}
ALONE = {  # after which ranks have not run as many steps
    "one rank saves": save_on_rank_0,
    "one rank restores": restore_on_rank_0,
}


def outcome(model, do):
    """(the error's class, its message, the number that the table has after it)"""
    try:
        do(model)
    except (tf.errors.OpError, ValueError) as error:
        return type(error).__name__, str(error), model.holds()
    return None, "", model.holds()


def fail(model):
    model.save(model.good)
    model.fill(2)
    seen = {what: outcome(model, do) for what, do in FAILURES.items()}
    model.restore(model.good)
    seen["restored"] = model.holds()
    model.fill(2)
    report({**seen, **{what: outcome(model, do) for what, do in ALONE.items()}})


def save_for_ever(model):
    for number in range(1000):
        model.fill(number)
        model.numbered.saver.save(
            model.session,
            f"{model.folder}/model",
            global_step=number // 2,  # each second one is in the place of the one before
            write_meta_graph=False,
        )
        if number == 0:
            may_be_killed(model.folder, RANK)


if __name__ == "__main__":
    with tf1.Session(config=session_config(rewrites=False)) as session:
        {"fail": fail, "kill": save_for_ever}[sys.argv[2]](Model(sys.argv[1], session))
