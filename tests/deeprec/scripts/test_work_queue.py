# SPDX-License-Identifier: Apache-2.0
"""WorkQueue: what is taken, by whom, and how it is read."""

import itertools

import pytest
import tensorflow.compat.v1 as tf

from sok_compat.deeprec.python.ops import work_queue
from sok_compat.deeprec.python.ops.work_queue import WorkQueue
from sok_compat.ranks.identity import Ranks
from tests.support.processes.subprocess_python import run_python

WORKS = ["a", "b", "c", "d", "e"]


def taken(queue, limit=100):
    """All items of a queue that was just made, or as many as the limit."""
    items = []
    with tf.Session() as session:
        item = queue.take()
        while len(items) < limit:
            try:
                items.append(session.run(item).decode())
            except tf.errors.OutOfRangeError:
                break
    return items


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_each_item_in_each_epoch():
    assert taken(WorkQueue(WORKS, num_epochs=2, shuffle=False, prefix="p/")) == [
        f"p/{work}" for work in WORKS * 2
    ]
    assert taken(WorkQueue("alone")) == ["alone"]
    assert taken(WorkQueue(WORKS, num_epochs=None, shuffle=False), limit=12) == [
        *WORKS * 2,
        "a",
        "b",
    ]


def test_each_epoch_has_an_order_of_its_own_by_the_seed():
    orders = [taken(WorkQueue(WORKS, num_epochs=4, seed=seed)) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    epochs = [tuple(orders[0][i : i + 5]) for i in range(0, 20, 5)]
    assert all(sorted(epoch) == WORKS for epoch in epochs) and len(set(epochs)) > 1
    assert sorted(taken(WorkQueue(WORKS))) == WORKS


def test_takes_of_one_queue_are_different_items():
    queue = WorkQueue(WORKS)
    first, second = queue.take(), queue.take()
    with tf.Session() as session:
        items = [session.run(item) for item in (first, second, first, second, first)]
        assert sorted(item.decode() for item in items) == WORKS
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(second)


@pytest.mark.parametrize("num_ranks", [2, 5])
def test_ranks_take_different_items(monkeypatch, caplog, num_ranks):
    monkeypatch.setattr(work_queue, "is_collective", lambda: True)
    of_ranks = []
    for rank in range(num_ranks):
        monkeypatch.setattr(work_queue, "current_ranks", lambda rank=rank: Ranks(rank, num_ranks))
        of_ranks.append(taken(WorkQueue(WORKS, seed=3)))
    assert sorted(itertools.chain(*of_ranks)) == WORKS
    assert max(map(len, of_ranks)) - min(map(len, of_ranks)) <= 1
    assert ("5 items in an epoch do not divide evenly among 2 ranks" in caplog.text) == (
        num_ranks == 2
    )


def test_files_are_read_by_a_reader_with_a_summary(tmp_path):
    files = write_files(tmp_path)
    queue = WorkQueue(files, shuffle=False)
    queue.add_summary()
    WorkQueue(files).add_summary()  # of the same name
    _, lines = tf.TextLineReader().read_up_to(queue.input_producer(), num_records=2)
    summary = tf.summary.merge_all()
    read = []
    with tf.train.MonitoredTrainingSession() as session:
        while not session.should_stop():
            read += session.run(lines).tolist()
            shown, _ = tf.Summary.FromString(session.run(summary)).value
    assert [line.decode() for line in read] == [f"{f}{i}" for f in range(3) for i in range(3)]
    assert shown.tag == "work_queue/taken" and 1 <= shown.simple_value <= 3


def test_files_are_read_by_a_dataset(tmp_path):
    dataset = tf.data.TextLineDataset(WorkQueue(write_files(tmp_path)).input_dataset()).batch(9)
    lines = tf.data.make_one_shot_iterator(dataset).get_next()
    with tf.Session() as session:
        read = session.run(lines)
    assert sorted(line.decode() for line in read) == [f"{f}{i}" for f in range(3) for i in range(3)]


def write_files(folder):
    files = [folder / f"{f}.txt" for f in range(3)]
    for f, file in enumerate(files):
        file.write_text("".join(f"{f}{i}\n" for i in range(3)))
    return list(map(str, files))


@pytest.mark.parametrize("arguments, error, message", [
    (dict(works=[]), ValueError, "works must have at least one item"),
    (dict(works=[1]), TypeError, r"works must be strings, got \[1\]"),
    (dict(works=["a"], num_epochs=0), ValueError, "num_epochs must be an int >= 1, got 0"),
    (dict(works=["a"], num_epochs=True), ValueError, "num_epochs must be an int >= 1, got True"),
])  # fmt: skip
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        WorkQueue(**arguments)


def test_modules_of_deeprec_are_beside_those_of_tensorflow():
    run_python("""
        import sok_compat.deeprec as tf
        tf.disable_v2_behavior()  # the first name
        from tensorflow.core.framework.embedding import config_pb2
        from tensorflow.python.data.experimental.ops import parquet_dataset_ops
        from tensorflow.python.ops.work_queue import WorkQueue
        import tensorflow.python.ops.math_ops
        import tensorflow.python.data.experimental.ops.batching

        assert config_pb2.StorageType.HBM_DRAM is config_pb2.HBM_DRAM is tf.StorageType.HBM_DRAM
        assert config_pb2.CacheStrategy.LFU is config_pb2.LFU is tf.CacheStrategy.LFU
        assert tf.python.ops.math_ops.cast is tf.cast and tf.python.ops.work_queue.WorkQueue
        assert tf.core.framework.graph_pb2.GraphDef is tf.GraphDef
        assert tf.python.data.experimental.ops.parquet_dataset_ops is parquet_dataset_ops
        assert WorkQueue(["a"]).take().shape == []
    """)
