# SPDX-License-Identifier: Apache-2.0
"""Layouts of tables in checkpoints, as the saveable objects that savers see."""
