# SPDX-License-Identifier: Apache-2.0
"""`import horovod.tensorflow` in scripts where Horovod is not installed: what most of them call.

They are the current job's: one process trains alone; ranks that mpiexec started are those of MPI,
with mpi4py. Names that are missing raise an AttributeError that tells how to install Horovod.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

_MODULES = ("horovod", "horovod.tensorflow")
_VALUES = ("Average", "Sum", "Min", "Max", "Compression")
_FUNCTIONS = (  # of the current job
    *("rank", "size", "local_rank", "allreduce", "grouped_allreduce", "allgather", "alltoall"),
    *("broadcast", "broadcast_variables", "broadcast_global_variables"),
    *("BroadcastGlobalVariablesHook", "DistributedOptimizer", "DistributedGradientTape"),
)


def stand_in_for_horovod() -> None:
    """Makes this process find the stand-in, unless Horovod is installed. Imports nothing."""
    if importlib.util.find_spec("horovod") is None:
        sys.meta_path.append(_Finder())


def find_as_installed() -> None:
    """Undoes stand_in_for_horovod, but for modules that have been imported."""
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, _Finder)]


class StandIn(types.ModuleType):
    """A module of the stand-in."""

    is_stand_in = True  # asked by ranks/horovod/communicator.py

    def __getattr__(self, name: str) -> Any:
        """Refuses what only Horovod has."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"{self.__name__}.{name} needs Horovod, which is not installed: its stand-in has only "
            f"{', '.join(sorted(names()))}. python -m sok_compat.doctor tells how to install it"
        )


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, fullname, path=None, target=None):
        is_ours = fullname in _MODULES
        return ModuleSpec(fullname, self, is_package=True) if is_ours else None

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        if module.__name__ == "horovod.tensorflow":
            vars(module).update(names())


def names() -> dict[str, Any]:
    """{name: value} of the stand-in for horovod.tensorflow."""
    import tensorflow as tf

    from sok_compat.ranks import current_job
    from sok_compat.ranks.job import Job
    from sok_compat.tables.known_tables import connected_ranks

    def function_of_job(name):
        @tf.autograph.experimental.do_not_convert
        def function(*args, **kwargs):
            if not current_job.is_started():
                raise ValueError(f"call hvd.init() before hvd.{name}")
            return getattr(current_job.active_job(), name)(*args, **kwargs)

        function.__name__, function.__doc__ = name, getattr(Job, name).__doc__
        return function

    def init():
        """Connects the ranks of MPI; all of them call it. API of Horovod."""
        connected_ranks("hvd.init()")
        current_job.mark_started()

    return {
        "init": init,
        "is_initialized": current_job.is_started,
        "shutdown": lambda: None,  # ranks part at the end of their processes
        **{name: getattr(Job, name) for name in _VALUES},
        **{name: function_of_job(name) for name in _FUNCTIONS},
    }
