# SPDX-License-Identifier: Apache-2.0
"""One rank of `python -m benchmarks.two_hosts --cut`: steps until another rank is lost.

Its argument is a folder, into which each rank writes: what it prints may stay behind the link.
"""

import json
import sys
import time
from pathlib import Path

import tensorflow as tf

import sok_compat as sok
from sok_compat.ranks.current_job import start_job
from sok_compat.ranks.exchange import first_line

tf1 = tf.compat.v1
_STEPS = 5


def main():
    tf1.disable_eager_execution()
    job = start_job("this benchmark")
    folder = Path(sys.argv[1])
    sok.Init(global_batch_size=4 * job.size(), seed=1)
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
                _write(folder / f"{job.rank()}.lost", json.dumps(seen))
                return
            if step == _STEPS:
                _write(folder / f"{job.rank()}.steps", "")


def _write(path, text):
    whole = path.with_suffix(".part")
    whole.write_text(text)
    whole.rename(path)


if __name__ == "__main__":
    main()
