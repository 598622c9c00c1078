# SPDX-License-Identifier: Apache-2.0
"""DeepRec's lookups, and TensorFlow's lookups of embedding variables."""
