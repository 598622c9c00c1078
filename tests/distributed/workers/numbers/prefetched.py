# SPDX-License-Identifier: Apache-2.0
"""A model trained with its batches prefetched and without, and batches that are wrong."""

import numpy as np
import tensorflow as tf

import sok_compat as sok
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config

tf1 = tf.compat.v1
STEPS, BATCH, BAG, BAD_STEP, CAPACITY = 6, 4, 5, 3, 200
rng = np.random.default_rng(8)
KEYS = rng.integers(0, 100, [STEPS, SIZE, BATCH, BAG])
DENSE = rng.normal(size=[STEPS, SIZE, BATCH, 3]).astype(np.float32)


class Model:
    """Layers of both kinds on one input pipeline, in the default graph."""

    def __init__(self, keys, is_prefetched, max_nnz=BAG, capacity=CAPACITY):
        sok.Init(global_batch_size=BATCH * SIZE, seed=2)
        data = tf.data.Dataset.from_tensor_slices({"keys": keys, "dense": DENSE[:, RANK]})
        data = data.map(lambda each: {**each, "bags": tf.sparse.from_dense(each["keys"] + 1)})
        batch = tf1.data.make_one_shot_iterator(data).get_next()
        if is_prefetched:
            batch = sok.prefetch_lookups(batch)
        pooled = sok.DistributedEmbedding("mean", capacity, 16, slot_num=1, max_nnz=max_nnz)
        single = sok.All2AllDenseEmbedding(capacity, 4, slot_num=BAG, nnz_per_slot=1)
        self.tables = [layer.embedding_variable for layer in (pooled, single)]
        bags = batch["bags"] if max_nnz == BAG else sparse_of_two(batch["keys"])
        self.outputs = tf.concat(
            [
                tf.reshape(pooled(bags), [BATCH, 16]),
                tf.reshape(single(batch["keys"][:, :, tf.newaxis]), [BATCH, -1]),
                batch["dense"],
            ],
            axis=1,
        )
        self.step = tf1.train.get_or_create_global_step()
        loss = tf.reduce_sum(tf.square(self.outputs - 0.5))
        with sok.OptimizerScope(self.tables):
            self.train = tf1.train.AdagradOptimizer(0.1).minimize(
                loss, self.step, var_list=self.tables
            )


def sparse_of_two(keys):
    """Bags that have two keys too many where the first key is -1."""
    is_wrong = tf.tile(tf.equal(keys[:, :1], -1), [1, 2])
    is_key = tf.concat([tf.ones_like(is_wrong), is_wrong], axis=1)
    places = tf.where(is_key)
    return tf.SparseTensor(places, tf.abs(tf.gather_nd(keys, places)), [BATCH, 4])


def trained(is_prefetched, **arguments):
    """What each step gave, or its error; the rows at the end; ops that a step runs."""
    keys = arguments.pop("keys", KEYS)[:, RANK]
    with tf.Graph().as_default():
        model = Model(keys, is_prefetched, **arguments)
        exported = [table.export() for table in model.tables]
        init = tf1.global_variables_initializer()
        seen = []
        with tf1.Session(config=session_config(rewrites=False)) as session:
            session.run(init)
            coord = tf1.train.Coordinator()
            threads = tf1.train.start_queue_runners(session, coord)
            while len(seen) <= STEPS:
                try:
                    seen.append(session.run([model.outputs, model.train])[0])
                except tf.errors.OpError as error:
                    seen.append(type(error).__name__)
                    message = error.message
            rows = session.run(exported)
            coord.request_stop()
            coord.join(threads)
        return {"seen": seen, "rows": rows, "message": message, "ops": ops_before(model.train)}


def ops_before(op):
    """The types of what it depends on."""
    seen, waiting = {}, [op]
    while waiting:
        op = waiting.pop()
        if op.name not in seen:
            seen[op.name] = op.type
            waiting += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
    return set(seen.values())


def sessions_that_end_early():
    """[steps] of outputs, of two sessions of one graph; the first does not come to its end."""
    with tf.Graph().as_default():
        model = Model(KEYS[:, RANK], True)
        outputs = []
        for steps in (2, STEPS):
            with tf1.train.MonitoredTrainingSession(config=session_config(rewrites=False)) as run:
                outputs.append([run.run([model.outputs, model.train])[0] for _ in range(steps)])
        return outputs


def without_start():
    """The error of a session in which nothing makes batches."""
    with tf.Graph().as_default(), tf1.Session() as session:
        model = Model(KEYS[:, RANK], True)
        session.run(tf1.global_variables_initializer())
        try:
            session.run(model.outputs)
        except tf.errors.FailedPreconditionError as error:
            return error.message


if __name__ == "__main__":
    bad = KEYS % 50
    bad[BAD_STEP, SIZE - 1, 1, 0] = -1  # on the last rank alone
    many = KEYS.copy()
    many[BAD_STEP, SIZE - 1] = 200 + np.arange(BATCH * BAG).reshape(BATCH, BAG)
    report(
        {
            "plain": trained(False),
            "prefetched": trained(True),
            "bad bag": trained(True, keys=bad, max_nnz=2),
            "full": trained(True, keys=np.where(many >= 200, many * 8, KEYS % 8), capacity=12),
            "sessions": sessions_that_end_early(),
            "without start": without_start(),
        }
    )
