# SPDX-License-Identifier: Apache-2.0
"""Loss scaling for float16 models with tables."""

from sok_compat.sparse_operation_kit.tf.keras.mixed_precision.loss_scale_optimizer import (
    LossScaleOptimizer,
)

__all__ = ["LossScaleOptimizer"]
