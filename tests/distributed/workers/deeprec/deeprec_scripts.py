# SPDX-License-Identifier: Apache-2.0
"""What scripts for DeepRec do on several ranks beside training: Horovod's broadcasts of all
variables, queues of work, and counts of rows in summaries."""

import tempfile
from pathlib import Path

import numpy as np

import sok_compat.deeprec as tf
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config

tf.config.experimental.enable_distributed_strategy("collective")
import horovod.tensorflow as hvd  # noqa: E402 - as scripts do; the strategy has initialized it
from tensorflow.python.ops.work_queue import WorkQueue  # noqa: E402

OPTIMIZERS = {
    "Adam": lambda step: tf.train.AdamOptimizer(0.1),
    "AdamAsync": lambda step: tf.train.AdamAsyncOptimizer(0.1),
    "AdamW": lambda step: tf.train.AdamWOptimizer(0.1, 0.1),
    "AdagradDecay": lambda step: tf.train.AdagradDecayOptimizer(0.1, step),
    "Ftrl": lambda step: tf.train.FtrlOptimizer(0.1),
    "Momentum": lambda step: tf.train.MomentumOptimizer(0.1, 0.9),
}
WORKS = ["a", "b", "c", "d", "e"]


class Model:
    """A table and an ordinary variable for each optimizer."""

    def __init__(self):
        self.step = tf.train.get_or_create_global_step()
        self.ids = tf.placeholder(tf.int64, [None])
        self.tables, self.train_ops = [], [tf.assign_add(self.step, 1)]
        for name, make in OPTIMIZERS.items():
            with tf.variable_scope(name):
                table = tf.get_embedding_variable("table", 3)
                weights = tf.get_variable("weights", initializer=np.float32([1, 2, 3]) + RANK)
            loss = tf.reduce_mean((tf.nn.embedding_lookup(table, self.ids) * weights - 1.0) ** 2)
            self.train_ops.append(make(self.step).minimize(loss, var_list=[table, weights]))
            self.tables.append(table)
        slots = {slot for table in self.tables for slot in table.slots}
        self.ordinary = [v for v in tf.global_variables() if v not in {*self.tables, *slots}]
        self.rows = [table.export()[:2] for table in self.tables], list(slots)
        self.counts = [table.total_count() for table in self.tables]
        self.counts_of_all = [hvd.allreduce(count, op=hvd.Sum) for count in self.counts]
        # What nobody's ordinary variables are on another rank, slots of optimizers among them.
        self.disturb = [tf.assign_add(v, (1 + RANK) * tf.ones_like(v)) for v in self.ordinary]

    def seen(self, session):
        rows, slots = session.run(self.rows)
        return {
            "ordinary": dict(zip([v.op.name for v in self.ordinary], session.run(self.ordinary))),
            "rows": [dict(zip(keys.tolist(), values)) for keys, values in rows],
            "slots": slots,
            "counts": session.run(self.counts)[0].tolist(),
            "counts_of_all": session.run(self.counts_of_all)[0].tolist(),
        }


def broadcast(model):
    """{when: what this rank has}, around broadcasts of different variables in a plain session."""
    synchronize = hvd.broadcast_global_variables(0)
    init = tf.global_variables_initializer()
    seen = {}
    with tf.Session(config=session_config(rewrites=False)) as session:
        session.run(init)
        session.run(model.train_ops, {model.ids: range(RANK, RANK + 12, 2)})
        session.run(model.disturb)
        seen["before"] = model.seen(session)
        session.run(synchronize)
        seen["after"] = model.seen(session)
    return seen


def broadcast_by_hook(model):
    """The ordinary variables that a session starts with."""
    hooks = [hvd.BroadcastGlobalVariablesHook(0)]
    with tf.train.MonitoredSession(session_creator(), hooks) as session:
        return session.run(model.ordinary)


def summarize(model):
    """[(step, tag, value)] of summaries on this rank; nobody writes them on others than rank 0."""
    for name, counts in (("mine", model.counts), ("all", model.counts_of_all)):
        tf.summary.scalar(f"rows/{name}", counts[0][0])
    with tempfile.TemporaryDirectory() as folder:
        with tf.train.MonitoredTrainingSession(
            summary_dir=folder, save_summaries_steps=1, config=session_config(rewrites=False)
        ) as session:
            for number in range(3):
                ids = range(10 * number + RANK, 10 * number + 10, SIZE)
                session.run(model.train_ops, {model.ids: ids})
        return [
            (event.step, value.tag, value.simple_value)
            for file in Path(folder).glob("events.*")
            for event in tf.train.summary_iterator(str(file))
            for value in event.summary.value
            if value.tag.startswith("rows/")
        ]


def session_creator():
    return tf.train.ChiefSessionCreator(config=session_config(rewrites=False))


def take_all(item):
    """What a tensor gives until there is no more."""
    items = []
    with tf.train.MonitoredSession(session_creator()) as session:
        while not session.should_stop():
            items.append(session.run(item).decode())
    return items


def work():
    """{how: the items of this rank}"""
    taken = {}
    for how in ("take", "input_dataset", "input_producer"):
        with tf.Graph().as_default():
            queue = WorkQueue(WORKS, num_epochs=2)
            if how == "take":
                taken[how] = take_all(queue.take())
            elif how == "input_dataset":
                taken[how] = take_all(
                    tf.data.make_one_shot_iterator(queue.input_dataset()).get_next()
                )
            else:
                taken[how] = take_all(queue.input_producer().dequeue())
    return taken


def main():
    with tf.Graph().as_default():
        model = Model()
        seen = {
            "broadcast": broadcast(model),
            "start": broadcast_by_hook(model),
            "summaries": summarize(model),
        }
    report({**seen, "work": work()})


if __name__ == "__main__":
    main()
