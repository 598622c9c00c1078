# SPDX-License-Identifier: Apache-2.0
"""A step's lookups: keys to output, and gradients back to rows."""
