# SPDX-License-Identifier: Apache-2.0
"""examples.sok2 on this rank's part of each batch; reports its losses. Argument: a checkpoint."""

import sys

from examples.sok2.train import train
from tests.distributed.workers.ranks import report

(path,) = sys.argv[1:]
report({"losses": train(30, 256, path), "resumed": train(5, 256, path)})
