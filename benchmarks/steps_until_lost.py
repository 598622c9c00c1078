# SPDX-License-Identifier: Apache-2.0
"""One rank of `python -m benchmarks.two_hosts --cut`: steps until another rank is lost."""

import json
import time

import tensorflow as tf

import sok_compat as sok
from sok_compat.ranks.exchange import first_line

tf1 = tf.compat.v1
_STEPS = 5


def main():
    tf1.disable_eager_execution()
    import horovod.tensorflow as hvd

    hvd.init()
    sok.Init(global_batch_size=4 * hvd.size(), seed=1)
    layer = sok.All2AllDenseEmbedding(1000, 8, slot_num=1, nnz_per_slot=100)
    keys = tf.reshape(tf.range(400, dtype=tf.int64), [4, 1, 100])
    rows = layer(keys)
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        for step in range(1 << 40):
            try:
                session.run(rows)
            except tf.errors.OpError as error:
                seen = {"when": time.time(), "message": first_line(error)}
                print("lost " + json.dumps(seen), flush=True)
                return
            if step == _STEPS:
                print("steps", flush=True)


if __name__ == "__main__":
    main()
