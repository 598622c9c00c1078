# SPDX-License-Identifier: Apache-2.0
"""The processes that train together: those of horovodrun or mpiexec, or this one alone."""

import os

_OF_MPI = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK")  # mpiexec or srun sets one


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


class MpiRanks:
    """As above, with MPI between the ranks, and without Horovod."""

    def __init__(self):
        from sparse_operation_kit import communication

        communication.init()
        self._sok = communication
        self.rank = communication.rank()
        self.size = communication.num_ranks()
        self.local_rank = communication.local_rank()

    def sum(self, gradients):
        return [self._sok.allreduce(gradient, op="sum") for gradient in gradients]

    def gather(self, tensor):
        return self._sok.allgather(tensor)


def connect():
    """The ranks of this run; before anything else of sok_compat is called."""
    if "HOROVOD_SIZE" in os.environ:
        return HorovodRanks()
    return MpiRanks() if any(name in os.environ for name in _OF_MPI) else OneRank()
