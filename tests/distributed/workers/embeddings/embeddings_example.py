# SPDX-License-Identifier: Apache-2.0
"""examples.distributed_embeddings on this rank's part of each batch; reports its losses."""

from examples.distributed_embeddings.train import train
from examples.dlrm.ranks import connect
from tests.distributed.workers.ranks import report

ranks = connect()
losses = train(ranks, 4096, 256, epochs=2)
report({"losses": losses, "plain": train(ranks, 4096, 256, 2, True) if ranks.size == 1 else None})
