# SPDX-License-Identifier: Apache-2.0
"""Ranks that fail, differ, or are late."""
