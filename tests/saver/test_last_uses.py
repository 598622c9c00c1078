# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of tables that evict when they are full: which keys go next is saved, too."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.checkpoint import IncrementalSaver, save_tables_in_checkpoints
from sok_compat.checkpoint.tool.command_line import main
from sok_compat.lookup.find_rows import find_rows
from sok_compat.lookup.new_keys import NewKeys
from sok_compat.tables import Table
from sok_compat.tables.key_history import KeyHistory
from tests.support.deeprec.deeprec_files import write_tensors
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
HOURS_AHEAD = 2**62


@pytest.fixture
def table(graph):
    save_tables_in_checkpoints()
    return Table(None, 2, "ones", name="t", history=KeyHistory(max_keys=4))


class Calls:
    """Ops of a table, by their keys."""

    def __init__(self, table, session):
        self._session = session
        self._keys = tf1.placeholder(tf.int64, [None])
        self._ops = {
            "read": find_rows([table], [self._keys], [NewKeys(True)])[0],
            "make room": table.make_room(self._keys)[0],
            "history": table.key_history(self._keys),
        }

    def __call__(self, name, *keys):
        return self._session.run(self._ops[name], {self._keys: keys})


def test_increments_have_the_keys_that_were_used_again(table, tmp_path):
    saver = IncrementalSaver()
    with initialized_session() as session:
        call = Calls(table, session)
        call("read", 3, 4)
        call("read", 1, 2)
        saver.save(session, f"{tmp_path}/m", 0)
        for key in (4, 5, 1):  # 3 goes
            call("read", key)
        path = saver.save_increment(session, f"{tmp_path}/m", 1)
        assert sorted(tf.train.load_variable(path, "t/keys.increment").tolist()) == [1, 4, 5]
        call("read", 2, 6, 7, 8)
        saver.restore(session, path)
        _, moments = call("history", 1, 2, 4, 5)
        assert np.argsort(moments).tolist() == [1, 2, 3, 0]
        assert call("make room", 9, 10, 11).tolist() == [2, 4, 5]


def saved_with(path, **changed):
    """Keys 1, 2, 3 and 4, last used in the opposite order."""
    keys = np.arange(1, 5)
    tensors = {"keys": keys, "rows": np.ones([4, 2], np.float32), "freqs": keys, "versions": -keys}
    tensors = {f"t/{name}": array for name, array in {**tensors, **changed}.items()}
    write_tensors(path, {name: array for name, array in tensors.items() if array is not None})
    return path


@pytest.mark.parametrize(
    "changed, first, recorded",
    [
        ({"versions": 10 - np.arange(4)}, [4, 3], "versions, freqs"),
        ({"versions": HOURS_AHEAD - np.arange(4)}, [1, 2], "versions, freqs"),
        ({"versions": 10 - np.arange(4), "freqs": None}, [4, 3], "key: versions"),
        ({"versions": None}, [1, 2], "key: freqs"),
        ({"versions": None, "freqs": None}, [1, 2], "dim 2"),
    ],
    ids=["saved", "by a clock that is ahead", "alone", "not saved", "nothing saved"],
)
def test_keys_go_in_the_order_of_their_last_uses(table, tmp_path, capsys, changed, first, recorded):
    path = saved_with(f"{tmp_path}/m", **changed)
    with initialized_session() as session:
        tf1.train.Saver([table]).restore(session, path)
        assert Calls(table, session)("make room", 8, 9).tolist() == first
    assert main(["show", path]) == 0
    assert recorded in capsys.readouterr().out


@pytest.mark.parametrize("name", ["freqs", "versions"])
def test_numbers_that_do_not_fit_the_keys_change_nothing(table, tmp_path, name):
    path = saved_with(f"{tmp_path}/m", **{name: np.arange(3)})
    with initialized_session() as session:
        call = Calls(table, session)
        call("read", 7)
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"t/{name} .* 3 numbers for 4"):
            tf1.train.Saver([table]).restore(session, path)
        assert session.run(table.export())[0].tolist() == [7]
