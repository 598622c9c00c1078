# SPDX-License-Identifier: Apache-2.0
"""Scripts that run as ranks; each imports `ranks`. The op library is chosen here, before them."""

from tests.support.gpu_kernels import use_library_asked_for

use_library_asked_for()
