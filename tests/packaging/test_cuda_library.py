# SPDX-License-Identifier: Apache-2.0
"""The CUDA back end of an installation: one library, which also loads where there is no GPU."""

import ctypes

import pytest

from sok_compat.engine import _engine
from sok_compat.runtime import built_libraries

pytestmark = pytest.mark.skipif(not _engine.HAS_CUDA, reason="a build without CUDA")

KERNELS = b".nv_fatbin"  # the section of an ELF file in which they are


def libraries():
    return sorted(built_libraries.built_libraries().values())


def test_kernels_stand_once():
    (beside,) = {path.parent for path in libraries()}
    assert KERNELS in (beside / "libsok_cuda.so").read_bytes()
    for path in (*libraries(), _engine.__file__):
        with open(path, "rb") as library:
            assert KERNELS not in library.read(), path


def test_it_exports_the_engines_and_nothing_else_of_ours():
    path = libraries()[0].with_name("libsok_cuda.so")
    library = ctypes.CDLL(str(path))
    for name in ("_ZN3sok10CudaEngineEi", "_ZN3sok12CudaEngineOfEPv"):
        assert hasattr(library, name)
    for name in (
        "_ZN3sok16CountCudaDevicesEPPKc",
        "_ZN3sok15CudaStreamOrder9BeginCallEP11CUstream_st",
    ):
        assert not hasattr(library, name)
