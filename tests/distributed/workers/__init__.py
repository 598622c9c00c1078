# SPDX-License-Identifier: Apache-2.0
"""Programs that each rank of a test runs. The op library is chosen before any of them imports it."""

from tests.support.gpu_kernels import use_library_asked_for

use_library_asked_for()
