# SPDX-License-Identifier: Apache-2.0
"""Rank 1 never connects; the others report what they are told."""

import time

import sok_compat as sok
from tests.distributed.workers.ranks import RANK, report

seen = None
if RANK == 1:
    time.sleep(8)
else:
    began = time.time()
    try:
        sok.init()
    except RuntimeError as error:
        seen = {"error": str(error), "seconds": time.time() - began}
report(seen)
