"""What the op library was built with; CMakeLists.txt writes the module."""

import pathlib

TENSORFLOW_VERSION: str
HAS_GPU_KERNELS: bool
OPS_LIBRARY: pathlib.Path
