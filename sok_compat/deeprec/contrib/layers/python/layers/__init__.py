# SPDX-License-Identifier: Apache-2.0
"""The names of `tf.contrib.layers`, which scripts also import from here, and their modules."""

from sok_compat.deeprec.contrib.layers.python.layers.feature_column import *  # noqa: F403
from sok_compat.deeprec.contrib.layers.python.layers.feature_column_ops import *  # noqa: F403
from sok_compat.deeprec.contrib.layers.python.layers.initializers import *  # noqa: F403
from sok_compat.deeprec.contrib.layers.python.layers.layers import *  # noqa: F403
from sok_compat.deeprec.contrib.layers.python.layers.regularizers import *  # noqa: F403
