# SPDX-License-Identifier: Apache-2.0
"""Horovod's own helpers beside tables."""
