# SPDX-License-Identifier: Apache-2.0
"""Lookups of a step: from keys to pooled rows, and gradients back to rows."""
