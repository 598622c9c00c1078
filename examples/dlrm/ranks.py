# SPDX-License-Identifier: Apache-2.0
"""The processes that train together: those that horovodrun started, or this one alone."""

import os

_SIZE_VARIABLES = ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")  # horovodrun, mpirun


class OneRank:
    """A process that trains alone; Horovod need not be installed."""

    rank = 0
    size = 1
    local_rank = 0  # on its machine

    def sum(self, gradients):
        """The sums over ranks of a list of gradients."""
        return gradients

    def gather(self, tensor):
        """The rows [n, ...] of all ranks, one below the other; the ranks' n may differ."""
        return tensor


class HorovodRanks:
    """As above, with Horovod between the ranks."""

    def __init__(self):
        import horovod.tensorflow as hvd  # here, so that one process runs without it

        hvd.init()
        self._hvd = hvd
        self.rank = hvd.rank()
        self.size = hvd.size()
        self.local_rank = hvd.local_rank()

    def sum(self, gradients):
        return [self._hvd.allreduce(gradient, op=self._hvd.Sum) for gradient in gradients]

    def gather(self, tensor):
        return self._hvd.allgather(tensor)


def connect():
    """The ranks of this run; before anything of sok_compat is called."""
    is_launched = any(name in os.environ for name in _SIZE_VARIABLES)
    return HorovodRanks() if is_launched else OneRank()
