# SPDX-License-Identifier: Apache-2.0
"""DistributedEmbedding on ranks that begin with disable_v2_behavior: trained, saved and restored in
sessions; and inputs that come to the owners of their tables.

Argument: the folder of checkpoints, with that of one rank.
"""

import sys

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_v2_behavior()

from sok_compat.distributed_embeddings.python.layers import (  # noqa: E402
    dist_model_parallel as dmp,
)
from sok_compat.distributed_embeddings.python.layers.embedding import Embedding  # noqa: E402
from tests.distributed.workers.embeddings import saved_embeddings  # noqa: E402
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config  # noqa: E402


def of_owners():
    """Of the rank's part of a batch, whose ids at rank r are r, 0, r, 0, ...: its outputs."""
    with tf.Graph().as_default(), tf1.Session(config=session_config()) as session:
        layer = dmp.DistributedEmbedding(
            [Embedding(5 + rank, 2, combiner="mean") for rank in range(SIZE)], dp_input=False
        )
        outputs = layer([tf.constant([[RANK, RANK], [0, 0]] * SIZE)])
        session.run(tf1.global_variables_initializer())
        layer.set_weights([np.arange(10 + 2 * rank).reshape(-1, 2) for rank in range(SIZE)])
        return [output.dtype.name for output in outputs], session.run(outputs)


report({"sessions": saved_embeddings.sessions(sys.argv[1]), "of owners": of_owners()})
