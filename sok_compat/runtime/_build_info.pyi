"""The op libraries beside this file; CMakeLists.txt writes the module."""

import pathlib

HAS_GPU_KERNELS: bool
OPS_LIBRARIES: dict[str, pathlib.Path]
