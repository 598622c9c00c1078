# SPDX-License-Identifier: Apache-2.0
"""Feature columns of embedding variables, trained for a step on this rank's part of the batch."""

from sok_compat.deeprec.columns.embedding_columns import (
    EmbeddingVariableColumn,
    SharedEmbeddingVariableColumn,
)
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config
from tests.support.deeprec.feature_column_cases import trained

KINDS = (EmbeddingVariableColumn, SharedEmbeddingVariableColumn)

if __name__ == "__main__":
    config = session_config(rewrites=False)
    report(trained("layer", rank=RANK, size=SIZE, config=config, kinds=KINDS))
