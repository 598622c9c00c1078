# SPDX-License-Identifier: Apache-2.0
"""`import horovod.tensorflow` in scripts where Horovod is not installed: what most of them call.

One process trains alone; ranks that mpiexec started are those of MPI, with mpi4py. Names that are
missing raise an AttributeError that says how to install Horovod.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

_MODULES = ("horovod", "horovod.tensorflow")


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
            f"{', '.join(sorted(_names()))}. python -m sok_compat.doctor says how to install it"
        )


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, fullname, path=None, target=None):
        is_ours = fullname in _MODULES
        return ModuleSpec(fullname, self, is_package=True) if is_ours else None

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        if module.__name__ == "horovod.tensorflow":
            vars(module).update(_names())


def _names():
    from sok_compat.training import horovod_names

    return {name: getattr(horovod_names, name) for name in horovod_names.__all__}
