# SPDX-License-Identifier: Apache-2.0
"""examples.deeprec.train in all its ways, launched as sok_compat.run does; reports its figures."""

import json
import sys
from pathlib import Path

from sok_compat.run.program import main
from tests.distributed.workers.ranks import report

SIZES = ["--train-samples", "8000", "--test-samples", "2000", "--batch-size", "256", "--dim", "4"]


def trained(embedding, folder):
    """What the program has saved; None: another rank has."""
    figures = Path(folder, embedding, "auc.json")
    figures.unlink(missing_ok=True)
    arguments = ["--embedding", embedding, "--rows", "5000", "--out", folder]
    try:
        main(["-m", "examples.deeprec.train", *SIZES, *arguments])
    except SystemExit as end:
        assert end.code == 0, end.code
    return json.loads(figures.read_text()) if figures.exists() else None


folder, *embeddings = sys.argv[1:]
report({embedding: trained(embedding, folder) for embedding in embeddings})
