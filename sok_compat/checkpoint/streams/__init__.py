# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as streams, read and written by all savers; files that only rank 0 has."""
