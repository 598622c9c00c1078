# SPDX-License-Identifier: Apache-2.0
"""Hides Keras 2 where this folder is on the path,
where SOK_TEST_KERAS=3 puts it."""

raise ImportError("SOK_TEST_KERAS=3 hides tf-keras")
