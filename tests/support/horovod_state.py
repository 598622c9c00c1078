# SPDX-License-Identifier: Apache-2.0
"""Horovod in the process of the tests."""

import sys


def shut_down_horovod():
    """Undoes sok.init(), after which this process counts as one of Horovod's ranks."""
    horovod = sys.modules.get("horovod.tensorflow")
    if horovod is not None and horovod.is_initialized():
        horovod.shutdown()
